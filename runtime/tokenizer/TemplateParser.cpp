// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The statements of chat templates; expressions are in TemplateExpressions.cpp.
#include "runtime/tokenizer/TemplateParser.h"

namespace sluice {

namespace {
constexpr uint32_t kMaxHeight = 200;
}

Result<TemplateTree> TemplateParser::run() {
  tree_.root = parseBody({});
  if (!failed() && current().kind != TemplateTokenKind::End) {
    fail("unexpected " + describe());
  }
  if (failed()) {
    return status_;
  }
  return std::move(tree_);
}

/// The first error counts; after it the parser only sees the end of the template.
int32_t TemplateParser::failWith(Code code, std::string_view message) {
  if (status_) {
    status_ = Status(code, "line " + std::to_string(current().line) + ": " + std::string(message));
  }
  at_ = tokens_.size() - 1; // all loops see the end
  return kNoNode;
}

int32_t TemplateParser::fail(std::string_view message) {
  return failWith(Code::InvalidArgument, message);
}

int32_t TemplateParser::refuse(std::string_view message) {
  return failWith(Code::Unsupported, message);
}

std::string TemplateParser::describe() const {
  switch (current().kind) {
  case TemplateTokenKind::End:
    return "end of the template";
  case TemplateTokenKind::Data:
    return "text";
  case TemplateTokenKind::VariableBegin:
    return "'{{'";
  case TemplateTokenKind::VariableEnd:
    return "'}}'";
  case TemplateTokenKind::BlockBegin:
    return "'{%'";
  case TemplateTokenKind::BlockEnd:
    return "'%}'";
  default:
    return "'" + current().text.substr(0, 40) + "'";
  }
}

bool TemplateParser::skipOperator(std::string_view spelling) {
  const bool is = current().isOperator(spelling);
  if (is) {
    next();
  }
  return is;
}

bool TemplateParser::skipName(std::string_view name) {
  const bool is = current().isName(name);
  if (is) {
    next();
  }
  return is;
}

bool TemplateParser::expectOperator(std::string_view spelling) {
  if (!skipOperator(spelling)) {
    fail("expected '" + std::string(spelling) + "', found " + describe());
  }
  return !failed();
}

bool TemplateParser::expectBlockEnd() {
  if (failed()) {
    return false;
  }
  if (current().kind != TemplateTokenKind::BlockEnd) {
    fail("expected '%}', found " + describe());
    return false;
  }
  next();
  return true;
}

const std::string *TemplateParser::intern(std::string text) {
  return &tree_.texts.emplace_back(std::move(text));
}

/// Appends a node and computes its height; a null child of an earlier error is never read.
int32_t TemplateParser::add(TemplateNode node) {
  if (failed()) {
    return kNoNode;
  }
  for (int32_t child : node.children) {
    if (child != kNoNode) {
      node.height = std::max(node.height, tree_.nodes[child].height + 1);
    }
  }
  if (node.height > kMaxHeight) {
    return refuse("the template nests deeper than " + std::to_string(kMaxHeight) + " operations");
  }
  tree_.nodes.push_back(std::move(node));
  return static_cast<int32_t>(tree_.nodes.size() - 1);
}

int32_t TemplateParser::make(NodeKind kind, std::initializer_list<int32_t> children, uint32_t line,
                             const std::string *name) {
  TemplateNode node;
  node.kind = kind;
  node.line = line;
  node.name = name;
  node.children = children;
  return add(std::move(node));
}

bool TemplateParser::atBlockName(std::initializer_list<std::string_view> names) const {
  return current().kind == TemplateTokenKind::BlockBegin &&
         ahead().kind == TemplateTokenKind::Name &&
         std::find(names.begin(), names.end(), ahead().text) != names.end();
}

/// Statements up to "{% NAME" of one of `ends` (which stays), or to the end of the template.
int32_t TemplateParser::parseBody(std::initializer_list<std::string_view> ends) {
  const ParseDepth level(*this);
  TemplateNode block;
  block.kind = NodeKind::Block;
  block.line = current().line;
  while (!failed() && current().kind != TemplateTokenKind::End && !atBlockName(ends)) {
    const uint32_t line = current().line;
    int32_t child = kNoNode;
    if (current().kind == TemplateTokenKind::Data) {
      child = make(NodeKind::Data, {}, line, intern(current().text));
      next();
    } else if (current().kind == TemplateTokenKind::VariableBegin) {
      next();
      const int32_t value = parseTuple(true, false, "");
      if (!failed() && current().kind != TemplateTokenKind::VariableEnd) {
        return fail("expected '}}', found " + describe());
      }
      next();
      child = make(NodeKind::Output, {value}, line);
    } else {
      next(); // {%
      child = parseStatement();
    }
    block.children.push_back(child);
  }
  if (!failed() && ends.size() > 0 && current().kind == TemplateTokenKind::End) {
    return fail("the template ends before {% " + std::string(*ends.begin()) + " %} of line " +
                std::to_string(block.line));
  }
  return add(std::move(block));
}

int32_t TemplateParser::parseStatement() {
  if (current().kind != TemplateTokenKind::Name) {
    return fail("expected a statement, found " + describe());
  }
  const std::string name = current().text;
  if (name == "if") {
    return parseIf();
  }
  if (name == "for") {
    return parseFor();
  }
  if (name == "set") {
    return parseSet();
  }
  if (name == "macro") {
    return parseMacro();
  }
  if (name == "filter") {
    return parseFilterBlock();
  }
  if (name == "with") {
    return parseWith();
  }
  if (name == "generation") {
    return parseGeneration();
  }
  if (name == "break") {
    return parseLoopControl(NodeKind::Break);
  }
  if (name == "continue") {
    return parseLoopControl(NodeKind::Continue);
  }
  for (std::string_view known : {"extends", "include", "import", "from", "block", "call",
                                 "autoescape", "do", "print", "trans", "pluralize", "debug"}) {
    if (name == known) {
      return refuse("statement {% " + name + " %} is not supported in chat templates");
    }
  }
  return fail("unknown statement {% " + name.substr(0, 40) + " %}");
}

/// "{% NAME %}" at a place where parseBody stopped.
bool TemplateParser::endBlock(std::string_view name) {
  if (failed()) {
    return false;
  }
  next(); // {%
  if (!skipName(name)) {
    fail("expected {% " + std::string(name) + " %}, found " + describe());
    return false;
  }
  return expectBlockEnd();
}

/// Behind {% if: conditions and bodies up to {% endif %}.
int32_t TemplateParser::parseIf() {
  TemplateNode node;
  node.kind = NodeKind::If;
  node.line = current().line;
  next(); // if
  for (;;) {
    node.children.push_back(parseTuple(false, false, ""));
    if (!expectBlockEnd()) {
      return kNoNode;
    }
    node.children.push_back(parseBody({"endif", "elif", "else"}));
    if (failed()) {
      return kNoNode;
    }
    if (!ahead().isName("elif")) {
      break;
    }
    next(); // {%
    next(); // elif
  }
  if (ahead().isName("else")) {
    if (!endBlock("else")) {
      return kNoNode;
    }
    node.children.push_back(parseBody({"endif"}));
  }
  endBlock("endif");
  return add(std::move(node));
}

/// {% for TARGET in ITEMS [if FILTER] %}, {% else %}.
int32_t TemplateParser::parseFor() {
  const uint32_t line = current().line;
  next(); // for
  const int32_t target = parseTarget(false);
  if (!failed() && !skipName("in")) {
    return fail("expected 'in', found " + describe());
  }
  const int32_t items = parseTuple(false, false, "recursive");
  const int32_t filter = skipName("if") ? parseExpression() : kNoNode;
  if (!failed() && current().isName("recursive")) {
    return refuse("recursive loops are not supported");
  }
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  ++loops_;
  const int32_t body = parseBody({"endfor", "else"});
  --loops_;
  int32_t otherwise = kNoNode;
  if (!failed() && ahead().isName("else")) {
    if (!endBlock("else")) {
      return kNoNode;
    }
    otherwise = parseBody({"endfor"});
  }
  endBlock("endfor");
  return make(NodeKind::For, {target, items, body, otherwise, filter}, line);
}

/// A name, a tuple of names, or NAME.ATTRIBUTE for a namespace.
int32_t TemplateParser::parseTarget(bool allowAttribute) {
  const uint32_t line = current().line;
  TemplateNode tuple;
  tuple.kind = NodeKind::TupleLiteral;
  tuple.line = line;
  const bool parenthesis = skipOperator("(");
  bool isTuple = false;
  do {
    if (current().kind != TemplateTokenKind::Name) {
      if (isTuple) {
        break; // a comma at the end
      }
      return fail("expected a name to assign to, found " + describe());
    }
    const std::string name = current().text;
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) {
        return fail("can't assign to '" + name + "'");
      }
    }
    next();
    int32_t target = make(NodeKind::Name, {}, line, intern(name));
    if (allowAttribute && current().isOperator(".")) {
      next();
      if (current().kind != TemplateTokenKind::Name) {
        return fail("expected a name, found " + describe());
      }
      target = make(NodeKind::Attribute, {target}, line, intern(current().text));
      next();
    }
    tuple.children.push_back(target);
    isTuple = isTuple || current().isOperator(",");
  } while (skipOperator(","));
  if (parenthesis && !expectOperator(")")) {
    return kNoNode;
  }
  return isTuple ? add(std::move(tuple)) : tuple.children.front();
}

/// {% set TARGET = VALUE %}, or {% set TARGET [| FILTER] %} ... {% endset %}.
int32_t TemplateParser::parseSet() {
  const uint32_t line = current().line;
  next(); // set
  const int32_t target = parseTarget(true);
  if (skipOperator("=")) {
    const int32_t value = parseTuple(true, false, "");
    expectBlockEnd();
    return make(NodeKind::Set, {target, value}, line);
  }
  const int32_t filter = current().isOperator("|") ? parseFilters(kNoNode) : kNoNode;
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  const int32_t body = parseBody({"endset"});
  endBlock("endset");
  return make(NodeKind::SetBlock, {target, body, filter}, line);
}

/// {% macro NAME(a, b=DEFAULT) %}.
int32_t TemplateParser::parseMacro() {
  TemplateNode node;
  node.kind = NodeKind::Macro;
  node.line = current().line;
  next(); // macro
  if (current().kind != TemplateTokenKind::Name) {
    return fail("expected a macro's name, found " + describe());
  }
  node.name = intern(current().text);
  next();
  if (!expectOperator("(")) {
    return kNoNode;
  }
  std::vector<int32_t> defaults;
  while (!failed() && !current().isOperator(")")) {
    if (!node.names.empty() && !expectOperator(",")) {
      return kNoNode;
    }
    if (current().isOperator(")")) {
      break;
    }
    if (current().kind != TemplateTokenKind::Name) {
      return fail("expected a parameter's name, found " + describe());
    }
    node.names.push_back(intern(current().text));
    next();
    if (skipOperator("=")) {
      defaults.push_back(parseExpression());
    } else if (!defaults.empty()) {
      return fail("a parameter without default follows one with default");
    }
  }
  next(); // )
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  const int outerLoops = std::exchange(loops_, 0);
  node.children.push_back(parseBody({"endmacro"}));
  loops_ = outerLoops;
  node.children.insert(node.children.end(), defaults.begin(), defaults.end());
  endBlock("endmacro");
  return add(std::move(node));
}

int32_t TemplateParser::parseFilterBlock() {
  const uint32_t line = current().line;
  next(); // filter
  int32_t filter = parseFilter(kNoNode);
  filter = failed() ? kNoNode : parseFilters(filter);
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  const int32_t body = parseBody({"endfilter"});
  endBlock("endfilter");
  return make(NodeKind::FilterBlock, {body, filter}, line);
}

/// {% with a = 1, b = 2 %}.
int32_t TemplateParser::parseWith() {
  TemplateNode node;
  node.kind = NodeKind::With;
  node.line = current().line;
  next(); // with
  std::vector<int32_t> pairs;
  while (!failed() && current().kind != TemplateTokenKind::BlockEnd) {
    if (!pairs.empty() && !expectOperator(",")) {
      return kNoNode;
    }
    const uint32_t line = current().line;
    if (current().kind != TemplateTokenKind::Name) {
      return fail("expected a name, found " + describe());
    }
    pairs.push_back(make(NodeKind::Name, {}, line, intern(current().text)));
    next();
    if (!expectOperator("=")) {
      return kNoNode;
    }
    pairs.push_back(parseExpression());
  }
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  node.children.push_back(parseBody({"endwith"}));
  node.children.insert(node.children.end(), pairs.begin(), pairs.end());
  endBlock("endwith");
  return add(std::move(node));
}

/// {% generation %} of transformers marks the assistant's tokens for training; here it only has its
/// own scope.
int32_t TemplateParser::parseGeneration() {
  TemplateNode node;
  node.kind = NodeKind::With;
  node.line = current().line;
  next(); // generation
  if (!expectBlockEnd()) {
    return kNoNode;
  }
  node.children.push_back(parseBody({"endgeneration"}));
  endBlock("endgeneration");
  return add(std::move(node));
}

int32_t TemplateParser::parseLoopControl(NodeKind kind) {
  const uint32_t line = current().line;
  if (loops_ == 0) {
    return fail("'" + current().text + "' outside of a loop");
  }
  next();
  expectBlockEnd();
  return make(kind, {}, line);
}

} // namespace sluice
