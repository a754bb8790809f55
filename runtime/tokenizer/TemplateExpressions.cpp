// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of chat templates, by falling precedence of operators as in jinja2/parser.py.
#include "runtime/tokenizer/TemplateFilters.h"
#include "runtime/tokenizer/TemplateParser.h"

#include <charconv>

namespace sluice {

/// "a, b, c" or one expression. `endName` may follow where an expression could go on.
int32_t TemplateParser::parseTuple(bool withConditional, bool inParentheses,
                                   std::string_view endName) {
  TemplateNode tuple;
  tuple.kind = NodeKind::TupleLiteral;
  tuple.line = current().line;
  bool isTuple = false;
  for (;;) {
    const bool ends = current().kind == TemplateTokenKind::VariableEnd ||
                      current().kind == TemplateTokenKind::BlockEnd || current().isOperator(")") ||
                      (!endName.empty() && current().isName(endName));
    if (ends || failed()) {
      break;
    }
    tuple.children.push_back(withConditional ? parseConditional() : parseOr());
    if (!skipOperator(",")) {
      break;
    }
    isTuple = true;
  }
  if (failed()) {
    return kNoNode;
  }
  if (!isTuple) {
    if (!tuple.children.empty()) {
      return tuple.children.front();
    }
    if (!inParentheses) {
      return fail("expected an expression, found " + describe());
    }
  }
  return add(std::move(tuple));
}

/// A if CONDITION else B; without else Undefined.
int32_t TemplateParser::parseConditional() {
  const ParseDepth level(*this);
  const uint32_t line = current().line;
  int32_t node = parseOr();
  while (!failed() && skipName("if")) {
    const int32_t condition = parseOr();
    const int32_t otherwise = skipName("else") ? parseConditional() : kNoNode;
    node = make(NodeKind::Conditional, {node, condition, otherwise}, line);
  }
  return node;
}

int32_t TemplateParser::parseOr() {
  const uint32_t line = current().line;
  int32_t left = parseAnd();
  while (!failed() && skipName("or")) {
    left = make(NodeKind::Or, {left, parseAnd()}, line);
  }
  return left;
}

int32_t TemplateParser::parseAnd() {
  const uint32_t line = current().line;
  int32_t left = parseNot();
  while (!failed() && skipName("and")) {
    left = make(NodeKind::And, {left, parseNot()}, line);
  }
  return left;
}

int32_t TemplateParser::parseNot() {
  const ParseDepth level(*this);
  const uint32_t line = current().line;
  if (!failed() && skipName("not")) {
    return make(NodeKind::Not, {parseNot()}, line);
  }
  return parseCompare();
}

/// Comparisons chain: a < b < c.
int32_t TemplateParser::parseCompare() {
  TemplateNode node;
  node.kind = NodeKind::Compare;
  node.line = current().line;
  node.children.push_back(parseSum());
  while (!failed()) {
    std::string sign;
    for (std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (skipOperator(known)) {
        sign = known;
        break;
      }
    }
    if (sign.empty() && skipName("in")) {
      sign = "in";
    } else if (sign.empty() && current().isName("not") && ahead().isName("in")) {
      next();
      next();
      sign = "not in";
    }
    if (sign.empty()) {
      break;
    }
    node.names.push_back(intern(sign));
    node.children.push_back(parseSum());
  }
  return node.names.empty() ? node.children.front() : add(std::move(node));
}

int32_t TemplateParser::parseLeftAssociative(std::initializer_list<std::string_view> operators,
                                             int32_t (TemplateParser::*operand)()) {
  int32_t left = (this->*operand)();
  while (!failed()) {
    const uint32_t line = current().line;
    const auto it = std::find_if(operators.begin(), operators.end(),
                                 [&](std::string_view sign) { return skipOperator(sign); });
    if (it == operators.end()) {
      break;
    }
    left = make(NodeKind::Binary, {left, (this->*operand)()}, line, intern(std::string(*it)));
  }
  return left;
}

int32_t TemplateParser::parseSum() {
  return parseLeftAssociative({"+", "-"}, &TemplateParser::parseConcat);
}

/// ~ binds tighter than + and looser than *.
int32_t TemplateParser::parseConcat() {
  TemplateNode node;
  node.kind = NodeKind::Concat;
  node.line = current().line;
  node.children.push_back(parseProduct());
  while (!failed() && skipOperator("~")) {
    node.children.push_back(parseProduct());
  }
  return node.children.size() == 1 ? node.children.front() : add(std::move(node));
}

int32_t TemplateParser::parseProduct() {
  return parseLeftAssociative({"*", "/", "//", "%"}, &TemplateParser::parsePower);
}

/// ** is left-associative in Jinja, unlike Python, and binds looser than a sign.
int32_t TemplateParser::parsePower() {
  const uint32_t line = current().line;
  int32_t left = parseUnary(true);
  while (!failed() && skipOperator("**")) {
    left = make(NodeKind::Binary, {left, parseUnary(true)}, line, intern("**"));
  }
  return left;
}

/// A sign binds tighter than a filter: -1|abs is (-1)|abs.
int32_t TemplateParser::parseUnary(bool withFilter) {
  const ParseDepth level(*this);
  const uint32_t line = current().line;
  int32_t node = kNoNode;
  if (failed()) {
    return kNoNode;
  }
  if (skipOperator("-")) {
    node = make(NodeKind::Negate, {parseUnary(false)}, line);
  } else if (skipOperator("+")) {
    node = make(NodeKind::Plus, {parseUnary(false)}, line);
  } else {
    node = parsePrimary();
  }
  node = parsePostfix(node);
  return withFilter ? parseFilters(node) : node;
}

int32_t TemplateParser::parsePrimary() {
  if (failed()) {
    return kNoNode;
  }
  switch (current().kind) {
  case TemplateTokenKind::Name:
    return parseConstantOrName();
  case TemplateTokenKind::Text:
    return parseText();
  case TemplateTokenKind::Integer:
  case TemplateTokenKind::Float:
    return parseNumber();
  default:
    break;
  }
  if (skipOperator("(")) {
    const int32_t node = parseTuple(true, true, "");
    expectOperator(")");
    return node;
  }
  if (current().isOperator("[")) {
    return parseList();
  }
  if (current().isOperator("{")) {
    return parseDict();
  }
  return fail("expected an expression, found " + describe());
}

int32_t TemplateParser::parseConstantOrName() {
  const std::string name = current().text;
  TemplateNode node;
  node.kind = NodeKind::Literal;
  node.line = current().line;
  next();
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node.value = Value::ofBool(name[0] == 't' || name[0] == 'T');
  } else if (name == "none" || name == "None") {
    node.value = Value::none();
  } else {
    node.kind = NodeKind::Name;
    node.name = intern(name);
  }
  return add(std::move(node));
}

int32_t TemplateParser::parseText() {
  TemplateNode node;
  node.kind = NodeKind::Literal;
  node.line = current().line;
  std::string text; // adjacent literals are one
  for (; current().kind == TemplateTokenKind::Text; next()) {
    text += current().text;
  }
  node.value = Value::ofText(intern(std::move(text)));
  return add(std::move(node));
}

int32_t TemplateParser::parseNumber() {
  TemplateNode node;
  node.kind = NodeKind::Literal;
  node.line = current().line;
  const std::string &text = current().text;
  std::from_chars_result result{};
  if (current().kind == TemplateTokenKind::Integer) {
    int64_t value = 0;
    result = std::from_chars(text.data(), text.data() + text.size(), value);
    node.value = Value::ofInt(value);
  } else {
    double value = 0;
    result = std::from_chars(text.data(), text.data() + text.size(), value);
    node.value = Value::ofFloat(value);
  }
  if (result.ec != std::errc()) {
    return refuse("number " + text.substr(0, 40) + " is out of range");
  }
  next();
  return add(std::move(node));
}

int32_t TemplateParser::parseList() {
  TemplateNode node;
  node.kind = NodeKind::ListLiteral;
  node.line = current().line;
  next(); // [
  while (!failed() && !current().isOperator("]")) {
    if (!node.children.empty() && !expectOperator(",")) {
      return kNoNode;
    }
    if (current().isOperator("]")) {
      break;
    }
    node.children.push_back(parseExpression());
  }
  next(); // ]
  return add(std::move(node));
}

int32_t TemplateParser::parseDict() {
  TemplateNode node;
  node.kind = NodeKind::DictLiteral;
  node.line = current().line;
  next(); // {
  while (!failed() && !current().isOperator("}")) {
    if (!node.children.empty() && !expectOperator(",")) {
      return kNoNode;
    }
    if (current().isOperator("}")) {
      break;
    }
    node.children.push_back(parseExpression());
    if (!expectOperator(":")) {
      return kNoNode;
    }
    node.children.push_back(parseExpression());
  }
  next(); // }
  return add(std::move(node));
}

/// .name, [index] and (arguments) behind an expression.
int32_t TemplateParser::parsePostfix(int32_t node) {
  while (!failed()) {
    if (current().isOperator(".") || current().isOperator("[")) {
      node = parseSubscript(node);
    } else if (current().isOperator("(")) {
      TemplateNode call;
      call.kind = NodeKind::Call;
      call.line = current().line;
      call.children.push_back(node);
      node = parseArguments(call) ? add(std::move(call)) : kNoNode;
    } else {
      break;
    }
  }
  return node;
}

int32_t TemplateParser::parseSubscript(int32_t node) {
  const uint32_t line = current().line;
  if (skipOperator(".")) {
    if (current().kind == TemplateTokenKind::Name) {
      const std::string *name = intern(current().text);
      next();
      return make(NodeKind::Attribute, {node}, line, name);
    }
    if (current().kind == TemplateTokenKind::Integer) {
      return make(NodeKind::Item, {node, parseNumber()}, line);
    }
    return fail("expected a name behind '.', found " + describe());
  }
  next(); // [
  if (current().isOperator(":")) {
    return parseSlice(node, kNoNode, line);
  }
  const int32_t index = parseExpression();
  if (current().isOperator(":")) {
    return parseSlice(node, index, line);
  }
  if (current().isOperator(",")) {
    return refuse("an index of several parts is not supported");
  }
  expectOperator("]");
  return make(NodeKind::Item, {node, index}, line);
}

/// Behind "object[first".
int32_t TemplateParser::parseSlice(int32_t object, int32_t first, uint32_t line) {
  int32_t parts[3] = {first, kNoNode, kNoNode};
  for (int part = 1; part < 3 && skipOperator(":"); ++part) {
    if (!current().isOperator("]") && !current().isOperator(":")) {
      parts[part] = parseExpression();
    }
  }
  expectOperator("]");
  return make(NodeKind::Slice, {object, parts[0], parts[1], parts[2]}, line);
}

/// "(a, b, name=c)": appended to the node's children, names to its names.
bool TemplateParser::parseArguments(TemplateNode &node) {
  const ParseDepth level(*this);
  if (!expectOperator("(")) {
    return false;
  }
  bool first = true;
  while (!failed() && !current().isOperator(")")) {
    if (!first && !expectOperator(",")) {
      return false;
    }
    first = false;
    if (current().isOperator(")")) {
      break;
    }
    if (current().isOperator("*") || current().isOperator("**")) {
      refuse("unpacked arguments (*, **) are not supported");
      return false;
    }
    if (current().kind == TemplateTokenKind::Name && ahead().isOperator("=")) {
      node.names.push_back(intern(current().text));
      next();
      next();
    } else if (!node.names.empty()) {
      fail("an argument without name follows one with name");
      return false;
    }
    node.children.push_back(parseExpression());
  }
  next(); // )
  return !failed();
}

/// Filters, tests and calls behind an expression.
int32_t TemplateParser::parseFilters(int32_t node) {
  while (!failed()) {
    if (skipOperator("|")) {
      node = parseFilter(node);
    } else if (skipName("is")) {
      node = parseTest(node);
    } else if (current().isOperator("(")) {
      node = parsePostfix(node);
    } else {
      break;
    }
  }
  return node;
}

/// Behind "|".
int32_t TemplateParser::parseFilter(int32_t node) {
  TemplateNode filter;
  filter.kind = NodeKind::Filter;
  filter.line = current().line;
  filter.children.push_back(node);
  if (current().kind != TemplateTokenKind::Name) {
    return fail("expected a filter's name, found " + describe());
  }
  if (!isKnownFilter(current().text)) {
    return refuse("filter '" + current().text + "' is not supported");
  }
  filter.name = intern(current().text);
  next();
  if (current().isOperator("(") && !parseArguments(filter)) {
    return kNoNode;
  }
  return add(std::move(filter));
}

/// Behind "is".
int32_t TemplateParser::parseTest(int32_t node) {
  TemplateNode test;
  test.kind = NodeKind::Test;
  test.line = current().line;
  test.children.push_back(node);
  const bool negated = skipName("not");
  if (current().kind != TemplateTokenKind::Name) {
    return fail("expected a test's name, found " + describe());
  }
  if (!isKnownTest(current().text)) {
    return refuse("test '" + current().text + "' is not supported");
  }
  test.name = intern(current().text);
  next();
  const TemplateToken &token = current();
  const bool wordArgument = token.kind == TemplateTokenKind::Name && token.text != "else" &&
                            token.text != "or" && token.text != "and" && token.text != "is" &&
                            token.text != "if" && token.text != "not" && token.text != "in";
  const bool argument = wordArgument || token.kind == TemplateTokenKind::Text ||
                        token.kind == TemplateTokenKind::Integer ||
                        token.kind == TemplateTokenKind::Float || token.isOperator("[") ||
                        token.isOperator("{");
  if (token.isOperator("(")) {
    if (!parseArguments(test)) {
      return kNoNode;
    }
  } else if (argument) {
    test.children.push_back(parsePostfix(parsePrimary()));
  } else if (token.isName("is")) {
    return fail("tests can't be chained with 'is'");
  }
  const uint32_t line = test.line;
  const int32_t result = add(std::move(test));
  return negated ? make(NodeKind::Not, {result}, line) : result;
}

} // namespace sluice
