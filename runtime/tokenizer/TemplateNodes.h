// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree of a chat template: what TemplateParser writes and TemplateEvaluator walks. Nodes
// lie in one array and name each other by index, so that no destructor recurses.
#pragma once

#include "runtime/tokenizer/TemplateValue.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace sluice {

enum class NodeKind : uint8_t {
  // Expressions
  Literal,     ///< value
  Name,        ///< name
  ListLiteral, ///< children
  TupleLiteral,
  DictLiteral, ///< children: key, value, key, value, ...
  Attribute,   ///< children[0] . name
  Item,        ///< children[0] [ children[1] ]
  Slice,  ///< children[0] [ children[1] : children[2] : children[3] ]; absent parts are kNoNode
  Call,   ///< children[0] is called with the arguments behind it; the last names.size() ones have
          ///< these names
  Filter, ///< children[0] | name with arguments as Call; children[0] is kNoNode in a filter block
  Test,   ///< children[0] is name with arguments
  Not,    ///< children[0]
  Negate,
  Plus,
  Binary, ///< children[0] name children[1]: + - * / // % **
  Concat, ///< children joined as text
  And,    ///< children[0], children[1]
  Or,
  Compare, ///< children[0] names[0] children[1] names[1] children[2] ...; "not in" is one operator
  Conditional, ///< children: then, condition, else (may be kNoNode)
  // Statements
  Data,     ///< text
  Output,   ///< children[0] is printed
  Block,    ///< children in order
  If,       ///< children: condition, body, condition, body, ..., and maybe a last body
  For,      ///< children: target, iterable, body, else (kNoNode), filter (kNoNode)
  Set,      ///< children: target, value
  SetBlock, ///< children: target, body, filter (kNoNode)
  Macro,    ///< name; names: parameters; children: body, then the defaults of the last parameters
  FilterBlock, ///< children: body, filter
  With,        ///< children: body, then target, value, target, value, ...
  Break,
  Continue,
};

constexpr int32_t kNoNode = -1;

struct TemplateNode {
  NodeKind kind;
  uint32_t line = 1;
  uint32_t height = 1;               ///< of the tree below, this node included
  const std::string *name = nullptr; ///< of the tree's texts; also the text of Data
  Value value;                       ///< Literal only; its texts belong to the tree
  std::vector<int32_t> children;
  std::vector<const std::string *> names;
};

struct TemplateTree {
  std::vector<TemplateNode> nodes;
  std::deque<std::string> texts; ///< addresses never change
  int32_t root = kNoNode;
};

} // namespace sluice
