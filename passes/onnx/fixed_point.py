"""Whether a graph that was written for least cost could be written for less, without solving its problem anew.

Let G be a graph, P a choice of least cost for it, G' the graph that was written for P, and I the choice for G' that
leaves it as it is. The nodes of G' are those of G, and its Transposes the reorders that P left. So a choice for G'
should be a choice for G as well, and that problem is solved. But the models may offer more for nodes as they are
written in G' (a Reshape between other extents), or views may have come to lie side by side, and then the problem of G'
is another one. Here that is looked up: each option that a node has in G' must be one that it has in G, with the same
values in the same memory. Then no choice for G' gains, by one of two lemmas.

Lemma 1 (exact embedding). Let every order that a value has in G' be one that it has in G, for the same bytes, and every
option of a node in G' one that it has in G, where it costs, beside what P chose, no more than in G' beside the node as
it is. Then no choice for G' costs less than I.

Proof. A choice for G' that costs d more than I leads to a choice for G that costs at most d more than P. As P costs
least, d is not negative. Besides the options of nodes, a choice costs reorders and what is written for constants:

* Reorders of a value cost the same in G and in G'. A Reshape of G' that moves dims of one element alone, which stands
  for such a reorder, may take and give what that may; so may a Squeeze with the Unsqueeze behind it, where both keep
  all other dims in their order: to move what is between them costs what it costs to move the value. Not where a
  Transpose may take longer for the dims that it moves, in which those of one element count.
* An Unsqueeze of G' may have been written for a node that broadcasts its operand. While the rank of the result is not
  known, neither of the two has a choice in G': both stay as they were written for P.
* A constant in n orders costs n - 1 small nodes, and one for a changed node where its own order is not among them. Let
  each order of a constant in G' stand for one of a constant in G, and the orders in which constants of G' are written
  for different ones. More orders in G are more orders in G' then, and where a node is changed in G that P left, one is
  changed in G'.

Lemma 2 (units anywhere). Let the same hold but for dims of one element, which may lie in G' where no option of G had
them, for constants and for costs. What a choice for G costs is T for its Transposes, a multiple of the greatest common
divisor g of what single ones cost, and R for all else (changed nodes and small ones, reorders of constants and of dims
of one element, the dims that Transposes move), which has a largest sum M. If M - R(P) < g, no choice for G' has less to
transpose than I.

Proof. A choice for G' with less to transpose leads to one for G with T at most T(P) - g and R at most M. That costs at
most T(P) - g + M, which is less than T(P) + R(P), the least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd

from layout_ir.passes.onnx.consumers import KIBIBYTE, SMALL_NODE
from layout_ir.passes.onnx.graph_rewriter import GraphRewriter
from layout_ir.passes.onnx.model_graph import Graph, Node
from layout_ir.passes.onnx.node_models.node_option import NodeOption
from layout_ir.passes.onnx.order_plan import Plan
from layout_ir.passes.onnx.order_selection import Demand, costs_alike, option_cost
from layout_ir.passes.onnx.orders import (
    Order,
    Shape,
    compose,
    is_identity,
    without_units,
)
from layout_ir.passes.onnx.reachable_orders import (
    GivenOrders,
    NodeChoices,
    OfferedOptions,
    OrderSet,
    ReachableOrders,
)

_Pairs = tuple[tuple[int, int, Shape | None], ...]
"""Inputs or outputs of a node in G, by number, those that they are in G', and the shapes whose dims of one element may
lie anywhere."""


def is_fixed_point(plan: Plan, rewriter: GraphRewriter, cost: int, now: ReachableOrders) -> bool:
    """Whether it is known that no choice for the graph that was written gains: that none costs less than to leave it as
    it is, or that none has less to transpose.

    `plan` is P, which `rewriter` wrote, and `cost` what P costs; `now` has the orders and options of G'. Where
    something was left out of the problem of G, it is known that none costs less, or nothing. False says nothing.
    """
    if not _is_unchanged(plan, now.values.graph):
        return False
    # M - R(P) of lemma 2
    rest = plan.problem.largest_rest + _largest_moves(plan) - (cost - plan.transpose_cost)
    # An exact embedding is one with units anywhere, too: where that is enough, it is the one to look for.
    exact = rest >= _divisor(plan) or bool(plan.problem.reached.omitted)
    return Embedding(plan, rewriter, now, exact=exact).holds()


def _is_unchanged(plan: Plan, graph: Graph) -> bool:
    """Whether a graph stands as it was written, without blocks of channels."""
    return graph.nodes == graph.nodes_of_model and not plan.problem.consumer.block


def orders_before(plan: Plan, rewriter: GraphRewriter, graph: Graph) -> GivenOrders | None:
    """The orders that the values of G', which is `graph`, have in G, and the options of nodes that are as they were;
    None where they prove nothing.

    All that can be reached in the graph is found from these faster than from its Transposes: where each node that is
    new in it has options for them that ask for no others, no other is reached. There may seem to be more to choose from
    than there is, which `is_fixed_point` may be asked about all the same: models give no fewer options for more orders.
    """
    if not _is_unchanged(plan, graph) or plan.problem.reached.omitted:
        return None
    values, consumer = plan.values, plan.problem.consumer
    orders, members, places = values.orders, values.members, rewriter.places
    given: dict[str, OrderSet] = {}
    for name, (root, own) in places.items():
        known = orders.get(root)
        if known is not None:
            given[name] = known if is_identity(own) else values.sets.turned(known, own)
    before = {id(choices.node): choices for choices in plan.problem.reached.choices.values()}
    same: dict[int, NodeChoices] = {}
    for node in graph.nodes_of_model:
        choices = before.get(id(node.origin))
        if choices is None or plan.options.get(id(node.origin)) is not choices.offered.options[0]:
            continue
        moved = any(
            name and members[name].root in orders and places.get(name) != members[name][:2]
            for name in (*node.inputs, *node.outputs)
        )
        # What a Transpose made of a constant is one itself by now, which takes another rank without a node.
        moved = moved or any(
            name in graph.constants and name not in plan.graph.constants for name in node.inputs
        )
        if not moved and consumer.model_of(node) is choices.model:
            same[id(node)] = NodeChoices(node, choices.model, choices.offered)
    return GivenOrders(given, same)


def _divisor(plan: Plan) -> int:
    """The number g of lemma 2: the cost of all Transposes together is a multiple of it, whichever of them there are."""
    graph, consumer = plan.graph, plan.problem.consumer
    sizes = {
        consumer.counted_bytes(graph, root) for root in plan.values.orders if root not in graph.constants
    }
    return gcd(*map(consumer.transpose_cost, sizes)) or KIBIBYTE


def _largest_moves(plan: Plan) -> int:
    """The most that reorders can cost besides Transposes: those of constants, of dims of one element, and what
    Transposes cost for the dims that they move.

    They lead to orders that somebody asks for, each to one.
    """
    values = plan.values
    asked: Counter[str] = Counter()
    for op in plan.problem.ops:
        what = op.meaning
        if isinstance(what, NodeChoices):
            asked.update([values.members[name].root for name in what.node.inputs if name])
        elif isinstance(what, Demand):
            asked[values.member(what.name).root] += 1
    most = slowest = 0
    for root, orders in values.orders.items():
        shape = plan.graph.shape(root)
        slowest += min(asked[root], len(orders) - 1) * plan.problem.consumer.largest_slowness(shape)
        if root in plan.graph.constants:
            most += min(asked[root], len(orders) - 1)
        elif shape is not None and 1 in shape:
            alike = len({without_units(order, shape) for order in orders})
            most += min(asked[root], len(orders) - alike)
    return SMALL_NODE * most + slowest


class Embedding:
    """The choices for G' as choices for G: exact ones (lemma 1), or with dims of one element anywhere (lemma 2)."""

    def __init__(self, plan: Plan, rewriter: GraphRewriter, now: ReachableOrders, *, exact: bool):
        self.plan = plan
        self.now = now
        self.exact = exact
        self.places = rewriter.places
        self.squeezed = rewriter.squeezed
        shape_of, unsqueezed = now.values.graph.shape, rewriter.out.unsqueezed
        self.unsqueezed = {name: source for name, source in unsqueezed.items() if shape_of(name) is None}
        """Operands by name of what an Unsqueeze made of them, of unknown rank."""
        nodes = now.values.graph.nodes_of_model
        self.origins = {id(node): origin for node, origin in zip(nodes, rewriter.origins, strict=True)}
        """The node of G that a node of G' was, by identity of the latter."""
        self.choices = {id(choices.node): choices for choices in plan.problem.reached.choices.values()}
        self.constants = {*plan.graph.constants, *now.values.graph.constants}
        self._checked: dict[tuple[object, ...], bool] = {}

    def holds(self) -> bool:
        """Whether each choice for G' is one for G: of orders that the values have there, and of options of the
        nodes."""
        if not all(self._has_orders(root, orders) for root, orders in self.now.values.orders.items()):
            return False
        # Of nodes as they were, on the same tensors, the options are given.
        given, constants = self.now.given.choices, self.constants
        return all(
            self._holds_of(choices.node, choices.offered)
            for choices in self.now.choices.values()
            if choices is not given.get(id(choices.node)) and not constants.issuperset(choices.node.outputs)
        )

    def _has_orders(self, root: str, orders: OrderSet) -> bool:
        """Whether a value has these orders in G, where to move it costs what it costs in G'."""
        is_constant = root in self.constants
        if is_constant and not self.exact:
            return True
        before, now = self.plan.graph, self.now.values.graph
        if root in self.squeezed:
            return self._moves_as_whole(root)
        source, own = self.places.get(root, ("", ()))
        known = self.plan.values.orders.get(source)
        if known is None:
            return is_constant
        shape = before.shape(source)
        given = self.now.given.orders.get(root)
        if given is None or len(orders) > len(given):  # else they are those that it had
            units = self._units(shape)
            had = {without_units(order, units) for order in known}
            if not all(without_units(_composed(own, order), units) in had for order in orders):
                return False
        if is_constant:
            return True
        consumer = self.plan.problem.consumer
        turned = shape if shape is None or not own else tuple([shape[d] for d in own])
        nbytes, others = consumer.counted_bytes(before, source), consumer.counted_bytes(now, root)
        if turned == now.shape(root) and nbytes == others:
            return True
        return costs_alike(consumer, turned, nbytes) == costs_alike(consumer, now.shape(root), others)

    def _moves_as_whole(self, bare: str) -> bool:
        """Whether to move a value that lacks its dims of one element costs what it costs to move it with them."""
        if not self._moves_units_freely(self.plan.graph.shape(self.squeezed[bare][0])):
            return False
        consumer, shape = self.plan.problem.consumer, self.now.values.graph.shape(bare)
        nbytes = consumer.counted_bytes(self.plan.graph, self.squeezed[bare][0])
        others = consumer.counted_bytes(self.now.values.graph, bare)
        return costs_alike(consumer, shape, nbytes) == costs_alike(consumer, shape, others)

    def _moves_units_freely(self, shape: Shape | None) -> bool:
        """Whether Transposes of tensors of a shape cost the same wherever dims of one element lie."""
        return not self.exact or not self.plan.problem.consumer.largest_slowness(shape)

    def _units(self, shape: Shape | None) -> Shape | None:
        """The shape whose dims of one element are not looked at: none where it is to be exact."""
        return None if self.exact else shape

    def _holds_of(self, node: Node, offered: OfferedOptions) -> bool:
        origin = self.origins[id(node)]
        if origin is None:
            return self._is_reorder(node, offered)
        before = self.choices.get(id(origin))
        chosen = self.plan.options.get(id(origin))
        if before is None or chosen is None:
            return len(offered.options) == 1
        if node.origin is origin and offered is before.offered and chosen is offered.options[0]:
            return True  # a node as it was, on the same tensors
        ins = self._pairs(origin.inputs, chosen.ins, node.inputs)
        outs = self._pairs(origin.outputs, chosen.outs, node.outputs)
        if ins is None or outs is None:
            return False
        key = id(offered), id(before.offered), chosen, ins, outs
        known = self._checked.get(key)
        if known is None:
            costs = _extra_costs(offered, before.offered, chosen, ins, outs)
            known = self._checked[key] = costs is not None and (not self.exact or max(costs) <= 0)
        return known

    def _pairs(self, had: Sequence[str], orders: Sequence[Order], written: Sequence[str]) -> _Pairs | None:
        """Which of the values `written` in G' are those that a node of G had in these orders, if values have several;
        None where the node has others in G' that have several."""
        values, now = self.plan.values, self.now.values
        places = [self.places.get(self.unsqueezed.get(name, name)) for name in written]
        free = list(range(len(written)))
        pairs: list[tuple[int, int, Shape | None]] = []
        for k, (name, order) in enumerate(zip(had, orders, strict=True)):
            root = values.members[name].root if name else ""
            if root not in values.orders or (not self.exact and root in self.constants):
                continue
            place = root, values.root_order(name, order)
            # Mostly, it has its number still.
            n = k if k in free and places[k] == place else next((n for n in free if places[n] == place), None)
            if n is None:
                return None
            free.remove(n)
            pairs.append((k, n, self._units(self.plan.graph.shape(name))))
        for n in free:
            name = written[n]
            if name and name not in self.constants and now.members[name].root in now.orders:
                return None
        return tuple(pairs)

    def _is_reorder(self, node: Node, offered: OfferedOptions) -> bool:
        """Whether a node that was written besides stands, in all its options, for a reorder that moves nothing."""
        if node.outputs[0] in self.unsqueezed:
            return True  # it has no choice
        if node.domain or node.op_type not in ("Identity", "Reshape"):
            return not node.domain and self._is_half_of_reorder(node, offered)
        root, source = self.places.get(node.inputs[0], ("", ()))
        other, target = self.places.get(node.outputs[0], ("", ()))
        shape = self.plan.graph.shape(root) if node.op_type == "Reshape" else self._units(None)
        return (
            bool(root)
            and root == other
            and (node.op_type == "Identity" or self._moves_units_freely(shape))
            and all(
                without_units(_composed(source, option.ins[0]), shape)
                == without_units(_composed(target, option.outs[0]), shape)
                for option in offered.options
            )
        )

    def _is_half_of_reorder(self, node: Node, offered: OfferedOptions) -> bool:
        """Whether it is a Squeeze or an Unsqueeze, of two that stand for such a reorder together, and keeps dims of
        more than one element in their order."""
        if node.op_type not in ("Squeeze", "Unsqueeze"):
            return False
        whole, bare = node.inputs[0], node.outputs[0]
        if node.op_type == "Unsqueeze":
            whole, bare = bare, whole
        if bare not in self.squeezed or self.now.values.graph.uses[bare] != 1:
            return False
        root, before = self.squeezed[bare]
        other, own = self.places.get(whole, ("", ()))
        shape = self.plan.graph.shape(root)
        if shape is None or other != root:
            return False
        rest = without_units(before, shape)
        for option in offered.options:
            ends = option.ins[0], option.outs[0]
            mine, part = ends if node.op_type == "Squeeze" else ends[::-1]
            if without_units(_composed(own, mine), shape) != _composed(rest, part):
                return False
        return True


def _extra_costs(
    now: OfferedOptions, before: OfferedOptions, chosen: NodeOption, ins: _Pairs, outs: _Pairs
) -> list[int] | None:
    """By option of a node in G', what it costs in G more than the `chosen` one, less what it costs in G' more than the
    node as it is; None where the node lacks one of them in G."""
    had: dict[tuple[Order, ...], int] = {}
    for option in before.options:
        taken = [without_units(option.ins[k], shape) for k, _, shape in ins]
        made = [without_units(option.outs[k], shape) for k, _, shape in outs]
        cost = option_cost(option)
        had[*taken, *made] = min(cost, had.get((*taken, *made), cost))
    own = option_cost(chosen) - option_cost(now.options[0])
    costs: list[int] = []
    for option in now.options:
        taken = [without_units(_composed(chosen.ins[k], option.ins[n]), shape) for k, n, shape in ins]
        made = [without_units(_composed(chosen.outs[k], option.outs[n]), shape) for k, n, shape in outs]
        cost = had.get((*taken, *made))
        if cost is None:
            return None
        costs.append(cost - own - option_cost(option))
    return costs


def _composed(own: Order, order: Order) -> Order:
    """The order of a value in which a tensor lies that has it in order `own`; () is that of the tensor itself."""
    return compose(own, order) if own and order else own or order
