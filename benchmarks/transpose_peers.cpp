// Transposes by Eigen and by xtensor, behind one C interface that benchmarks/transpose_peers.py calls.
//
// A transpose is given by the extents of the source, outermost first and dense, and by `perm`: dim k of the
// destination, dense too, is dim perm[k] of the source. Elements are integers of 1, 2 or 4 bytes, rank is 2 to 5.
// The functions return 0, or 1 for a width or rank that they do not have.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef WITH_EIGEN
#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/Tensor>

namespace {

template <typename T, int Rank>
void eigen_transpose(const T* src, T* dst, const int64_t* extents, const int64_t* perm,
                     const Eigen::ThreadPoolDevice* pool) {
  std::array<Eigen::Index, Rank> from, to;
  std::array<int, Rank> order;
  for (int k = 0; k < Rank; ++k) {
    from[k] = extents[k];
    order[k] = static_cast<int>(perm[k]);
    to[k] = extents[perm[k]];
  }
  using In = Eigen::TensorMap<Eigen::Tensor<const T, Rank, Eigen::RowMajor, Eigen::Index>>;
  using Out = Eigen::TensorMap<Eigen::Tensor<T, Rank, Eigen::RowMajor, Eigen::Index>>;
  In in(src, from);
  Out out(dst, to);
  if (pool)
    out.device(*pool) = in.shuffle(order);
  else
    out = in.shuffle(order);
}

// The plain case has a class of its own in Eigen, whose transposition is better than that of tensors.
template <typename T>
void eigen_matrix(const T* src, T* dst, int64_t rows, int64_t cols) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<const Matrix> in(src, rows, cols);
  Eigen::Map<Matrix> out(dst, cols, rows);
  out.noalias() = in.transpose();
}

template <typename T>
int eigen_of_width(const void* src, void* dst, int rank, const int64_t* extents, const int64_t* perm,
                   const Eigen::ThreadPoolDevice* pool) {
  auto s = static_cast<const T*>(src);
  auto d = static_cast<T*>(dst);
  if (rank == 2 && !pool)
    eigen_matrix(s, d, extents[0], extents[1]);
  else if (rank == 2)
    eigen_transpose<T, 2>(s, d, extents, perm, pool);
  else if (rank == 3)
    eigen_transpose<T, 3>(s, d, extents, perm, pool);
  else if (rank == 4)
    eigen_transpose<T, 4>(s, d, extents, perm, pool);
  else if (rank == 5)
    eigen_transpose<T, 5>(s, d, extents, perm, pool);
  else
    return 1;
  return 0;
}

}  // namespace

extern "C" int eigen(const void* src, void* dst, int width, int rank, const int64_t* extents, const int64_t* perm,
                     int threads) {
  static std::unique_ptr<Eigen::ThreadPool> workers;
  static std::unique_ptr<Eigen::ThreadPoolDevice> device;
  if (threads > 1 && (!device || device->numThreads() != threads)) {
    device.reset();
    workers = std::make_unique<Eigen::ThreadPool>(threads);
    device = std::make_unique<Eigen::ThreadPoolDevice>(workers.get(), threads);
  }
  const Eigen::ThreadPoolDevice* pool = threads > 1 ? device.get() : nullptr;
  if (width == 1) return eigen_of_width<uint8_t>(src, dst, rank, extents, perm, pool);
  if (width == 2) return eigen_of_width<uint16_t>(src, dst, rank, extents, perm, pool);
  if (width == 4) return eigen_of_width<uint32_t>(src, dst, rank, extents, perm, pool);
  return 1;
}

extern "C" const char* eigen_version() {
#define TEXT(x) #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
  return VERSION(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
#undef VERSION
#undef TEXT
}
#endif

#ifdef WITH_XTENSOR
#include <xtensor/xadapt.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor_config.hpp>

namespace {

template <typename T, std::size_t Rank>
void xtensor_transpose(const T* src, T* dst, const int64_t* extents, const int64_t* perm) {
  std::array<std::size_t, Rank> from, to, order;
  std::size_t count = 1;
  for (std::size_t k = 0; k < Rank; ++k) {
    from[k] = extents[k];
    order[k] = perm[k];
    to[k] = extents[perm[k]];
    count *= from[k];
  }
  auto in = xt::adapt(src, count, xt::no_ownership(), from);
  auto out = xt::adapt(dst, count, xt::no_ownership(), to);
  xt::noalias(out) = xt::transpose(in, order);
}

template <typename T>
int xtensor_of_width(const void* src, void* dst, int rank, const int64_t* extents, const int64_t* perm) {
  auto s = static_cast<const T*>(src);
  auto d = static_cast<T*>(dst);
  if (rank == 2)
    xtensor_transpose<T, 2>(s, d, extents, perm);
  else if (rank == 3)
    xtensor_transpose<T, 3>(s, d, extents, perm);
  else if (rank == 4)
    xtensor_transpose<T, 4>(s, d, extents, perm);
  else if (rank == 5)
    xtensor_transpose<T, 5>(s, d, extents, perm);
  else
    return 1;
  return 0;
}

}  // namespace

extern "C" int xtensor(const void* src, void* dst, int width, int rank, const int64_t* extents, const int64_t* perm,
                       int) {
  if (width == 1) return xtensor_of_width<uint8_t>(src, dst, rank, extents, perm);
  if (width == 2) return xtensor_of_width<uint16_t>(src, dst, rank, extents, perm);
  if (width == 4) return xtensor_of_width<uint32_t>(src, dst, rank, extents, perm);
  return 1;
}

extern "C" const char* xtensor_version() {
#define TEXT(x) #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
  return VERSION(XTENSOR_VERSION_MAJOR, XTENSOR_VERSION_MINOR, XTENSOR_VERSION_PATCH);
#undef VERSION
#undef TEXT
}
#endif
