/* Calls the emitted thread pool, kernels and the entry from Python under a sanitizer.
 *
 * Callers and workers are POSIX threads. What the entry takes of CPython is here in small: objects that are arrays or
 * others, buffers that are counted, an error indicator, and a lock that is held wherever CPython holds its own.
 * Ends with status 0 where every byte, every count and every answer was right, else with a line that says what was not.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_WAKE (INT64_C(1) << 32)
#define CHECK(x) ((x) ? (void)0 : failed(__LINE__, #x))

static void failed(int line, const char *what) {
  printf("line %d: %s\n", line, what);
  fflush(stdout);
  _exit(2);
}

typedef void kernel_t(const void *, void *, int64_t, int64_t);
void reset(void);
void worker(int64_t index);
void parallel(kernel_t *kernel, const void *src, void *dst, int64_t threads);
kernel_t reorder; /* f32, ROWS x COLS transposed */
void *entry(void *self, void *const *args, int64_t n);

/* The pool ---------------------------------------------------------------------------------------------------------*/

static void *work(void *index) {
  worker((intptr_t)index);
  return NULL;
}

static void start(int workers) {
  for (intptr_t k = 1; k <= workers; k++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, (void *)k) == 0);
    CHECK(pthread_detach(thread) == 0);
  }
}

/* Adds one to every number of its share: a part that is run twice or not at all shows. */
static void count(const void *src, void *dst, int64_t part, int64_t parts) {
  const int64_t *from = src;
  int64_t *to = dst, n = from[0];
  for (int64_t k = n * part / parts; k < n * (part + 1) / parts; k++) to[k] += from[1];
}

static float *matrix(void) {
  float *x = malloc(sizeof(float) * ROWS * COLS);
  CHECK(x);
  return x;
}

static void check_transposed(const float *x, const float *y) {
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++) CHECK(y[j * ROWS + i] == x[i * COLS + j]);
}

static void *call(void *seed) {
  unsigned random = (unsigned)(uintptr_t)seed;
  float *x = matrix(), *y = matrix();
  for (int round = 0; round < ROUNDS; round++) {
    int64_t n = 1 + rand_r(&random) % 300, parts = 1 + rand_r(&random) % 11;
    int64_t from[2] = {n, round + 1};
    int64_t *to = calloc(n, sizeof *to);
    CHECK(to);
    parallel(count, from, to, rand_r(&random) % 2 ? parts : parts + NO_WAKE);
    for (int64_t k = 0; k < n; k++) CHECK(to[k] == round + 1);
    free(to);
    if (round % 8 == 0) {
      for (int k = 0; k < ROWS * COLS; k++) x[k] = (float)(rand_r(&random) % 1000);
      memset(y, 0, sizeof(float) * ROWS * COLS);
      parallel(reorder, x, y, parts);
      check_transposed(x, y);
    }
    if (round % 64 == 63) usleep(300); /* the workers fall asleep */
  }
  free(x);
  free(y);
  return NULL;
}

static void call_from(int callers, unsigned seed) {
  pthread_t threads[16];
  for (int k = 0; k < callers; k++) CHECK(pthread_create(threads + k, NULL, call, (void *)(uintptr_t)(seed + k)) == 0);
  for (int k = 0; k < callers; k++) CHECK(pthread_join(threads[k], NULL) == 0);
}

/* The entry --------------------------------------------------------------------------------------------------------*/

typedef struct { int64_t references; void *type; } Object;
typedef struct { Object *typeobj_head[2]; void *typeobj; char kind, type, byteorder, flags; char rest[64]; } Descr;
typedef struct {
  Object head;
  void *data;
  int nd;
  void *dimensions, *strides, *base;
  Descr *descr;
  /* what a real one has elsewhere */
  int64_t len, itemsize;
  const char *format;
  int readonly, exports;
} Array;
typedef struct {
  void *buf, *obj;
  int64_t len, itemsize;
  int readonly, ndim;
  const char *format;
  void *shape, *strides, *suboffsets, *internal;
} Buffer;
typedef struct {
  void *kernel, *slow, *parallel;
  int64_t src_bytes, dst_bytes, in_place, threads, src_width, dst_width;
  uint64_t src_codes, dst_codes;
  void *array;
} Record;

Object _Py_NoneStruct = {1, NULL};
static Object array_type, other_type;
static pthread_mutex_t gil = PTHREAD_MUTEX_INITIALIZER;
static __thread int holds, error, slow_calls;

int PyObject_GetBuffer(Array *x, Buffer *view, int flags) {
  CHECK(holds && !error);
  if (x->exports < 0 || (x->readonly && (flags & 1))) return error = 1, -1;
  memset(view, 0, sizeof *view);
  view->buf = x->data, view->obj = x, view->len = x->len, view->itemsize = x->itemsize, view->readonly = x->readonly;
  view->format = flags & 4 ? x->format : NULL;
  x->exports++, x->head.references++;
  return 0;
}
void PyBuffer_Release(Buffer *view) {
  Array *x = view->obj;
  CHECK(holds && x && x->exports > 0);
  x->exports--, x->head.references--, view->obj = NULL;
}
void PyErr_Clear(void) { CHECK(holds), error = 0; }
void *PyEval_SaveThread(void) {
  CHECK(holds && !error);
  holds = 0;
  pthread_mutex_unlock(&gil);
  return &gil;
}
void PyEval_RestoreThread(void *state) {
  CHECK(!holds && state == &gil);
  pthread_mutex_lock(&gil);
  holds = 1;
}
void *PyObject_Vectorcall(void *callable, void *const *args, int64_t n, void *names) {
  CHECK(holds && !error && callable == &slow_calls && !names && n >= 0);
  for (int64_t k = 0; k < n; k++) CHECK(((Array *)args[k])->exports <= 0);
  slow_calls++;
  _Py_NoneStruct.references++;
  return &_Py_NoneStruct;
}
char *PyBytes_AsString(void *x) { return CHECK(holds), x; }
void Py_IncRef(Object *x) { CHECK(holds), x->references++; }

static Array array_of(void *data, int64_t size, Descr *descr) {
  Array x = {.head = {1, &array_type}, .data = data, .descr = descr, .len = size, .itemsize = 4};
  return x;
}

/* Calls the entry with a buffer per side; whether the kernel ran. */
static int runs(Record *record, Array *x, Array *y, int64_t n) {
  void *args[3] = {x, y, y};
  int64_t before = _Py_NoneStruct.references;
  int slow = slow_calls;
  CHECK(entry(record, args, n) == &_Py_NoneStruct);
  CHECK(holds && !error && _Py_NoneStruct.references >= before + 1);
  CHECK(x->exports <= 0 && y->exports <= 0);
  return slow_calls == slow;
}

static void *enter(void *seed) {
  const int64_t size = sizeof(float) * ROWS * COLS;
  float *a = matrix(), *b = matrix(), *less = malloc(size - 4);
  Descr f4 = {.type = 'f', .byteorder = '='}, swapped = {.type = 'f', .byteorder = SWAPPED};
  Descr objects = {.type = 'O', .byteorder = '|'}, i4 = {.type = 'i', .byteorder = '='};
  Record record = {(void *)reorder, NULL, NULL, size, size, 0, 3, 4, 4, FLOATS, FLOATS, &array_type};
  record.slow = &slow_calls, record.parallel = (uintptr_t)seed % 2 ? (void *)parallel : NULL;
  pthread_mutex_lock(&gil);
  holds = 1;
  for (int round = 0; round < ROUNDS / 4; round++) {
    for (int k = 0; k < ROWS * COLS; k++) a[k] = (float)(k ^ round);
    Array x = array_of(a, size, &f4), y = array_of(b, size, &f4), z;
    CHECK(runs(&record, &x, &y, 2));
    check_transposed(a, b);
    z = array_of(less, size - 4, &f4);
    CHECK(!runs(&record, &x, &z, 2) && !runs(&record, &z, &y, 2)); /* too short */
    z = array_of(b, size, &swapped), CHECK(!runs(&record, &x, &z, 2));
    z = array_of(b, size, &objects), CHECK(!runs(&record, &x, &z, 2));
    z = array_of(b, size, &i4), CHECK(!runs(&record, &x, &z, 2));
    z = array_of(b, size, &f4), z.itemsize = 2, CHECK(!runs(&record, &x, &z, 2));
    z = array_of(b, size, &f4), z.readonly = 1, CHECK(!runs(&record, &x, &z, 2) && runs(&record, &z, &x, 2));
    for (int k = 0; k < ROWS * COLS; k++) a[k] = (float)(k ^ round);
    z = array_of(b, size, &f4), z.exports = -1, CHECK(!runs(&record, &x, &z, 2) && !runs(&record, &z, &y, 2));
    CHECK(!runs(&record, &x, &x, 2));                              /* one buffer as both */
    CHECK(!runs(&record, &x, &y, 3) && !runs(&record, &x, &y, 1)); /* three arguments, one */
    const char *formats[] = {"f", "i", "<f", "T{f:a:}", "O", "", "\x7f", NULL};
    for (int k = 0; k < 8; k++) { /* no array: its format decides */
      char *format = formats[k] ? strdup(formats[k]) : NULL;
      z = array_of(b, size, NULL), z.head.type = &other_type, z.format = format;
      CHECK(runs(&record, &x, &z, 2) == (k == 0));
      free(format);
    }
    pthread_mutex_unlock(&gil), holds = 0;
    pthread_mutex_lock(&gil), holds = 1;
  }
  holds = 0;
  pthread_mutex_unlock(&gil);
  free(a), free(b), free(less);
  return NULL;
}

int main(void) {
  start(WORKERS);
  call_from(1, 1);
  call_from(5, 10);
  pthread_t threads[4];
  for (int k = 0; k < 4; k++) CHECK(pthread_create(threads + k, NULL, enter, (void *)(uintptr_t)k) == 0);
  call_from(2, 20);
  for (int k = 0; k < 4; k++) CHECK(pthread_join(threads[k], NULL) == 0);
  CHECK(_Py_NoneStruct.references > 1);
  /* A child begins anew, with workers of its own. */
  for (int k = 0; FORKS && k < 3; k++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      reset();
      start(WORKERS);
      call_from(2, 30 + k);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  puts("all right");
  fflush(stdout);
  _exit(0); /* the workers wait for ever */
}
