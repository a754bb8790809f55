// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kahn's algorithm, taking the node that stands first in the file whenever there is a choice.
#include "compiler/import/SortNodes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <queue>
#include <vector>

#include "onnx/onnx-ml.pb.h"

using namespace sluicec;

// Calls `visit` with each name that the nodes of a subgraph take from outside.
static void forEachCapture(const ::onnx::GraphProto &graph,
                           llvm::function_ref<void(llvm::StringRef)> visit) {
  llvm::StringSet<> local;
  for (const auto &input : graph.input()) {
    local.insert(input.name());
  }
  for (const auto &tensor : graph.initializer()) {
    local.insert(tensor.name());
  }
  for (const auto &node : graph.node()) {
    for (const auto &output : node.output()) {
      local.insert(output);
    }
  }
  auto visitForeign = [&](llvm::StringRef name) {
    if (!name.empty() && !local.contains(name)) {
      visit(name);
    }
  };
  for (const auto &node : graph.node()) {
    for (const auto &input : node.input()) {
      visitForeign(input);
    }
    for (const auto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        forEachCapture(attribute.g(), visitForeign);
      }
    }
  }
  for (const auto &output : graph.output()) {
    visitForeign(output.name());
  }
}

namespace {
class Sorter {
public:
  Sorter(llvm::ArrayRef<const ::onnx::NodeProto *> graphNodes,
         llvm::function_ref<bool(llvm::StringRef)> defined)
      : nodes(graphNodes), isDefined(defined), numPending(graphNodes.size(), 0),
        users(graphNodes.size()) {}

  NodeOrder run() {
    for (auto [i, node] : llvm::enumerate(nodes)) {
      for (const auto &output : node->output()) {
        producers.try_emplace(output, static_cast<unsigned>(i));
      }
    }
    for (auto [i, node] : llvm::enumerate(nodes)) {
      for (const auto &input : node->input()) {
        if (!addEdge(input, static_cast<unsigned>(i))) {
          result.fault = NodeOrder::Fault::UndefinedInput;
          result.faultyNode = static_cast<unsigned>(i);
          result.faultyInput = input;
          return result;
        }
      }
      for (const auto &attribute : node->attribute()) {
        if (attribute.has_g()) {
          // A name that nothing defines is reported when the subgraph is imported.
          forEachCapture(attribute.g(), [&, at = static_cast<unsigned>(i)](llvm::StringRef name) {
            addEdge(name, at);
          });
        }
      }
    }
    order();
    if (result.order.size() < nodes.size()) {
      findCycle();
    }
    return result;
  }

private:
  llvm::ArrayRef<const ::onnx::NodeProto *> nodes;
  llvm::function_ref<bool(llvm::StringRef)> isDefined;
  std::vector<unsigned> numPending;         // operands of a node that are not computed yet
  std::vector<std::vector<unsigned>> users; // of a node's results
  llvm::StringMap<unsigned> producers;
  NodeOrder result;

  bool addEdge(llvm::StringRef name, unsigned user) {
    if (name.empty()) { // an absent operand
      return true;
    }
    auto producer = producers.find(name);
    if (producer != producers.end()) {
      users[producer->second].push_back(user);
      ++numPending[user];
      return true;
    }
    return isDefined(name);
  }

  void order() {
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> ready;
    for (unsigned i = 0; i < nodes.size(); ++i) {
      if (numPending[i] == 0) {
        ready.push(i);
      }
    }
    while (!ready.empty()) {
      unsigned next = ready.top();
      ready.pop();
      result.order.push_back(next);
      for (unsigned user : users[next]) {
        if (--numPending[user] == 0) {
          ready.push(user);
        }
      }
    }
  }

  // From any node that was not reached, walks against the edges until a node comes twice: that one
  // is on a cycle.
  void findCycle() {
    unsigned at = 0;
    while (numPending[at] == 0) {
      ++at;
    }
    std::vector<bool> seen(nodes.size());
    while (!seen[at]) {
      seen[at] = true;
      for (unsigned i = 0; i < nodes.size(); ++i) {
        if (numPending[i] != 0 && llvm::is_contained(users[i], at)) {
          at = i;
          break;
        }
      }
    }
    result.fault = NodeOrder::Fault::Cycle;
    result.faultyNode = at;
    for (const auto &input : nodes[at]->input()) {
      auto producer = producers.find(input);
      if (producer != producers.end() && numPending[producer->second] != 0) {
        result.faultyInput = input;
        break;
      }
    }
  }
};
} // namespace

NodeOrder sluicec::sortNodes(llvm::ArrayRef<const ::onnx::NodeProto *> nodes,
                             llvm::function_ref<bool(llvm::StringRef)> isDefined) {
  return Sorter(nodes, isDefined).run();
}
