// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the tokens of a chat template to its tree. Second step of ChatTemplate::parse.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/tokenizer/TemplateLexer.h"
#include "runtime/tokenizer/TemplateNodes.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Recursive descent after jinja2/parser.py. Nesting is limited to 100 levels and trees to a height
/// of 200, so that the evaluator may recurse. Unknown statements, filters and tests are refused
/// here, with their line.
class TemplateParser {
public:
  explicit TemplateParser(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}
  Result<TemplateTree> run();

private:
  // All parse functions give kNoNode after an error; status_ holds the first one.
  int32_t fail(std::string_view message);
  int32_t refuse(std::string_view message);
  int32_t failWith(Code code, std::string_view message);
  bool failed() const { return !status_; }

  const TemplateToken &current() const { return tokens_[at_]; }
  const TemplateToken &ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void next() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool skipOperator(std::string_view spelling);
  bool skipName(std::string_view name);
  bool expectOperator(std::string_view spelling);
  bool expectBlockEnd();
  std::string describe() const;
  const std::string *intern(std::string text);
  int32_t add(TemplateNode node);
  int32_t make(NodeKind kind, std::initializer_list<int32_t> children, uint32_t line,
               const std::string *name = nullptr);

  // Statements (TemplateParser.cpp)
  bool atBlockName(std::initializer_list<std::string_view> names) const;
  int32_t parseBody(std::initializer_list<std::string_view> ends);
  int32_t parseStatement();
  int32_t parseIf();
  int32_t parseFor();
  int32_t parseSet();
  int32_t parseMacro();
  int32_t parseFilterBlock();
  int32_t parseWith();
  int32_t parseGeneration();
  int32_t parseLoopControl(NodeKind kind);
  int32_t parseTarget(bool allowAttribute);
  bool endBlock(std::string_view name);

  // Expressions (TemplateExpressions.cpp)
  int32_t parseExpression() { return parseConditional(); }
  int32_t parseTuple(bool withConditional, bool inParentheses, std::string_view endName);
  int32_t parseConditional();
  int32_t parseOr();
  int32_t parseAnd();
  int32_t parseNot();
  int32_t parseCompare();
  int32_t parseSum();
  int32_t parseConcat();
  int32_t parseProduct();
  int32_t parsePower();
  int32_t parseUnary(bool withFilter);
  int32_t parsePrimary();
  int32_t parseConstantOrName();
  int32_t parseText();
  int32_t parseNumber();
  int32_t parseList();
  int32_t parseDict();
  int32_t parsePostfix(int32_t node);
  int32_t parseFilters(int32_t node);
  int32_t parseFilter(int32_t node);
  int32_t parseTest(int32_t node);
  int32_t parseSubscript(int32_t node);
  int32_t parseSlice(int32_t object, int32_t first, uint32_t line);
  bool parseArguments(TemplateNode &node);
  int32_t parseLeftAssociative(std::initializer_list<std::string_view> operators,
                               int32_t (TemplateParser::*operand)());

  std::vector<TemplateToken> tokens_;
  size_t at_ = 0;
  TemplateTree tree_;
  Status status_;
  int depth_ = 0;
  int loops_ = 0; ///< for statements around this place, inside of the innermost macro

  friend class ParseDepth;
};

/// Counts one level of nesting while it lives.
class ParseDepth {
public:
  explicit ParseDepth(TemplateParser &parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxDepth) {
      parser_.refuse("the template nests deeper than 100 levels");
    }
  }
  ~ParseDepth() { --parser_.depth_; }
  ParseDepth(const ParseDepth &) = delete;
  ParseDepth &operator=(const ParseDepth &) = delete;

private:
  static constexpr int kMaxDepth = 100;
  TemplateParser &parser_;
};

} // namespace sluice
