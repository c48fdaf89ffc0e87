//===- Schema.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Schema.h"
#include "Readers/TextLines.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

/// An object with more keys than this has data for keys.
static constexpr size_t MostKeys = 500;

struct Schema::Node {
  int64_t Seen = 0;    ///< Values.
  int64_t Objects = 0; ///< Those that are objects.
  bool IsMap = false;  ///< Keys are data; all are in Keys["*"].
  std::map<std::string, int64_t> Types; ///< With the line of the first.
  std::map<std::string, std::unique_ptr<Node>> Keys;
  std::unique_ptr<Node> Items;
};

Schema::Schema() : Root(std::make_unique<Node>()) {}
Schema::~Schema() = default;

static StringRef typeOf(LooseValue V) {
  if (V.isNull())
    return "null";
  if (V.isObject())
    return "object";
  if (V.isArray())
    return "array";
  if (V.isText())
    return "string";
  if (V.boolean())
    return "boolean";
  // 1.0 is a number to who parses it, and 1 an integer.
  return V.written().find_first_not_of("-0123456789") == StringRef::npos
             ? "integer"
             : "number";
}

void Schema::add(Node &At, LooseValue V, int64_t Line) {
  ++At.Seen;
  At.Types.insert({typeOf(V).str(), Line});
  if (V.isArray()) {
    if (!At.Items && V.first()) {
      At.Items = std::make_unique<Node>();
      ++Paths;
    }
    V.each([&](LooseValue Item) {
      add(*At.Items, Item, Line);
      return true;
    });
    return;
  }
  if (!V.isObject())
    return;
  ++At.Objects;
  V.each([&](LooseValue Value) {
    const std::string Key = At.IsMap ? "*" : Value.key().str();
    std::unique_ptr<Node> &Child = At.Keys[Key];
    if (!Child) {
      if (full()) {
        At.Keys.erase(Key);
        return true;
      }
      ++Paths;
      Child = std::make_unique<Node>();
    }
    add(*Child, Value, Line);
    if (!At.IsMap && At.Keys.size() > MostKeys)
      collapse(At);
    return true;
  });
}

void Schema::merge(Node &Into, const Node &From) {
  Into.Seen += From.Seen;
  Into.Objects += From.Objects;
  for (const auto &[Type, Line] : From.Types) {
    auto [It, New] = Into.Types.insert({Type, Line});
    if (!New)
      It->second = std::min(It->second, Line);
  }
  for (const auto &[Key, Child] : From.Keys) {
    std::unique_ptr<Node> &Own = Into.Keys[Into.IsMap ? "*" : Key];
    if (!Own)
      Own = std::make_unique<Node>();
    merge(*Own, *Child);
  }
  if (From.Items) {
    if (!Into.Items)
      Into.Items = std::make_unique<Node>();
    merge(*Into.Items, *From.Items);
  }
}

void Schema::collapse(Node &At) {
  auto All = std::make_unique<Node>();
  for (const auto &[Key, Child] : At.Keys)
    merge(*All, *Child);
  At.Keys.clear();
  At.Keys["*"] = std::move(All);
  At.IsMap = true;
}

/// Whether most of many keys are in a few of the objects alone: tokens with
/// their log probabilities, headers, ids.
static bool looksLikeMap(size_t Keys, int64_t Objects, int64_t Present) {
  return Keys >= 8 && Objects >= 2 &&
         double(Present) < 0.5 * double(Keys) * double(Objects);
}

void Schema::list(const Node &At, const std::string &Path,
                  std::map<std::string, SchemaField> &Out) {
  int64_t Present = 0;
  for (const auto &[Key, Child] : At.Keys)
    Present += Child->Seen;
  Node Collapsed;
  const Node *Of = &At;
  if (!At.IsMap && looksLikeMap(At.Keys.size(), At.Objects, Present)) {
    Collapsed.IsMap = true;
    merge(Collapsed, At);
    Of = &Collapsed;
  }
  const auto Field = [&](const std::string &Name, const Node &N) {
    SchemaField &F = Out[Name];
    for (const auto &[Type, Line] : N.Types) {
      if (Type == "integer" && N.Types.count("number"))
        continue; // 0 among 0.7 and 1.5
      F.Types += (F.Types.empty() ? "" : "|") + Type;
      F.FirstOfType[Type] = Line;
    }
    return &F;
  };
  for (const auto &[Key, Child] : Of->Keys) {
    const std::string Name = Path.empty() ? Key : Path + "." + Key;
    SchemaField *F = Field(Name, *Child);
    F->Objects = At.Objects;
    F->Missing = std::max<int64_t>(0, At.Objects - Child->Seen);
    F->Optional = Of->IsMap || F->Missing > 0;
    list(*Child, Name, Out);
  }
  if (At.Items) {
    Field(Path + "[]", *At.Items);
    list(*At.Items, Path + "[]", Out);
  }
}

void Schema::add(LooseValue Record, int64_t Line) {
  ++Records;
  add(*Root, Record, Line);
}

std::map<std::string, SchemaField> Schema::fields() const {
  std::map<std::string, SchemaField> Out;
  list(*Root, "", Out);
  return Out;
}

void addRecords(StringRef Text, Schema &Into) {
  Text.consume_front("\xEF\xBB\xBF");
  LineCounter Lines(Text);
  LooseTree Tree;
  StringRef Rest = Text;
  unsigned Broken = 0;
  while (true) {
    Rest = Rest.ltrim(" \t\r\n,");
    if (Rest.empty())
      return;
    const size_t Base = size_t(Rest.begin() - Text.begin());
    if (Rest.consume_front("data:"))
      continue;
    const auto NextLine = [&] {
      const size_t End = Rest.find('\n');
      Rest = End == StringRef::npos ? "" : Rest.drop_front(End);
    };
    if ((Rest[0] != '{' && Rest[0] != '[') || Rest.starts_with("[DONE]")) {
      NextLine(); // an event's name, a comment, what is broken
      continue;
    }
    LooseJson In(Rest);
    LooseJson::Token T = In.next();
    const bool List = T == LooseJson::Token::Array;
    if (List)
      T = In.next();
    bool Whole = true;
    while (T != LooseJson::Token::EndArray && T != LooseJson::Token::End) {
      const int64_t Line = Lines.lineOf(Base + In.offset());
      Whole = T != LooseJson::Token::Error && Tree.read(In, Rest, T);
      if (!Whole)
        break;
      Into.add(Tree.root(), Line);
      if (!List)
        break;
      T = In.next();
    }
    if (Whole) {
      Rest = Rest.drop_front(In.end());
      continue;
    }
    // A text that does not end is read to the end of the file each time.
    if (++Broken > 100)
      return;
    NextLine();
  }
}

} // namespace culprit
