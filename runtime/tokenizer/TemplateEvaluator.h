// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks the tree of a chat template and writes the prompt. Last step of ChatTemplate::render.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateNodes.h"
#include "runtime/tokenizer/TemplateValue.h"

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The variables of one place in the template; inner scopes see outer ones. As in Jinja, loops,
/// macros and `with` have a scope of their own, `if` has none.
struct TemplateScope {
  TemplateScope *outer;
  std::vector<std::pair<std::string_view, Value>> variables;
};

struct MacroValue {
  const TemplateNode *node;
  TemplateScope *scope; ///< where it was defined
};

class TemplateEvaluator {
public:
  /// Both must outlive the evaluator.
  TemplateEvaluator(const TemplateTree &tree, TemplateRuntime &runtime);
  /// Defines a variable of the outermost scope. `name` must live as long as the evaluator.
  void define(std::string_view name, const Value &value);
  /// Defines strftime_now(format) for a time in seconds since 1970, UTC.
  void defineClock(int64_t seconds);
  /// The whole output; an error is in the runtime.
  std::string run();

private:
  enum class Flow : uint8_t { Normal, Break, Continue };
  /// Counts one level of recursion while it lives. Statements, expressions and macros within each
  /// other: bounds the C++ stack.
  class Level {
  public:
    explicit Level(TemplateEvaluator &evaluator) : evaluator_(evaluator) {
      if (++evaluator_.levels_ > kMaxLevels) {
        evaluator_.runtime_.failLimit("the chat template nests too many operations");
      }
    }
    ~Level() { --evaluator_.levels_; }
    Level(const Level &) = delete;
    Level &operator=(const Level &) = delete;

  private:
    TemplateEvaluator &evaluator_;
  };
  static constexpr uint32_t kMaxLevels = 1000;

  Flow execute(int32_t index);
  Flow executeNode(const TemplateNode &node);
  Flow executeBlock(const TemplateNode &node);
  Flow executeIf(const TemplateNode &node);
  Flow executeWith(const TemplateNode &node);
  Flow executeFor(const TemplateNode &node);
  bool filterItems(const TemplateNode &node, const std::vector<Value> *&items);
  void executeSetBlock(const TemplateNode &node);
  void executeMacro(const TemplateNode &node);
  void executeFilterBlock(const TemplateNode &node);
  Flow capture(int32_t body, Value &text);
  void write(std::string_view text);
  void assign(const TemplateNode &target, const Value &value);
  void assignAttribute(const TemplateNode &target, const Value &value);

  Value evaluate(int32_t index);
  Value evaluateNode(const TemplateNode &node);
  Value evaluateName(const TemplateNode &node);
  Value evaluateList(const TemplateNode &node);
  Value evaluateDict(const TemplateNode &node);
  Value evaluateSlice(const TemplateNode &node);
  Value evaluateUnary(const TemplateNode &node);
  Value evaluateConcat(const TemplateNode &node);
  Value evaluateLogic(const TemplateNode &node);
  Value evaluateCompare(const TemplateNode &node);
  Value evaluateConditional(const TemplateNode &node);
  Value evaluateCall(const TemplateNode &node);
  Value evaluateFilter(const TemplateNode &node, const Value &input);
  Value evaluateBlockFilter(int32_t filter, const Value &text);
  TemplateArguments evaluateArguments(const TemplateNode &node);
  Value callFunction(TemplateFunction function, const TemplateArguments &arguments);
  Value callRange(const TemplateArguments &arguments);
  Value callMacro(const MacroValue &macro, const TemplateArguments &arguments);
  Value callLoop(const LoopValue &loop, const std::string &name,
                 const TemplateArguments &arguments);

  const TemplateNode &node(int32_t index) const { return tree_.nodes[static_cast<size_t>(index)]; }
  TemplateScope *openScope(TemplateScope *outer);

  const TemplateTree &tree_;
  TemplateRuntime &runtime_;
  std::deque<TemplateScope> scopes_; // macros may keep any of them
  std::deque<MacroValue> macros_;
  TemplateScope *scope_;
  std::string output_;
  std::string *out_ = &output_; // where text goes: the output, or a captured block
  int64_t nowSeconds_ = 0;
  uint32_t levels_ = 0;
  uint32_t calls_ = 0;
};

} // namespace sluice
