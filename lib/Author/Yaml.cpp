//===- Yaml.cpp -------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Author/Yaml.h"
#include "Support/Error.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

using namespace llvm;

namespace culprit {

const YamlValue *YamlValue::find(StringRef Key) const {
  for (const YamlEntry &E : Entries)
    if (E.Key == Key)
      return &E.Value;
  return nullptr;
}

std::string YamlValue::word() const {
  switch (What) {
  case Kind::Nothing:
    return "nothing";
  case Kind::Text:
    return "'" + Text.substr(0, 40) + (Text.size() > 40 ? "...'" : "'");
  case Kind::List:
    return "a list";
  case Kind::Map:
    break;
  }
  return "a map";
}

namespace {

class TreeBuilder {
public:
  TreeBuilder(StringRef Path, StringRef Text, unsigned FirstLine)
      : Path(Path), Text(Text), FirstLine(FirstLine) {}

  Expected<YamlValue> read() {
    SM.setDiagHandler(
        [](const SMDiagnostic &D, void *Self) {
          auto &B = *static_cast<TreeBuilder *>(Self);
          if (B.Problem.empty()) {
            B.Problem = D.getMessage().str();
            B.ProblemLine = B.FirstLine + std::max(1, D.getLineNo()) - 1;
          }
        },
        this);
    yaml::Stream Stream(Text, SM, /*ShowColors=*/false);
    YamlValue Out;
    auto Document = Stream.begin();
    Error E = Document == Stream.end()
                  ? Error::success()
                  : value(Document->getRoot(), Out, FirstLine, 0);
    // What the parser says explains what is odd about the tree.
    if (!Problem.empty()) {
      consumeError(std::move(E));
      return failure(Path + ":" + Twine(ProblemLine) + ": this is no YAML: " +
                         Problem,
                     remedy());
    }
    if (E)
      return E;
    return Out;
  }

private:
  /// What is likely to be the matter with the line that the parser names.
  StringRef remedy() const {
    StringRef Rest = Text, Line;
    for (unsigned At = FirstLine; At <= ProblemLine; ++At)
      std::tie(Line, Rest) = Rest.split('\n');
    if (Line.take_while(isSpace).contains('\t'))
      return "it begins with a tab, and YAML wants blanks";
    return "keys of one map stand below each other; a text with ': ' or a "
           "bracket wants quotes";
  }

  Error wrong(unsigned Line, const Twine &What, const Twine &Hint = "") {
    return failure(Path + ":" + Twine(Line) + ": " + What, Hint);
  }

  /// Where \p N begins; the end of the text where it stands nowhere.
  size_t beginOf(yaml::Node *N) {
    SMLoc At = N ? N->getSourceRange().Start : SMLoc();
    const char *P = At.getPointer();
    if (!P || P < Text.begin() || P > Text.end())
      return StringRef::npos;
    size_t Begin = P - Text.begin();
    // The parser places {a, b} and [a, b] at what follows the bracket.
    StringRef Before = Text.take_front(Begin).rtrim();
    if ((isa<yaml::MappingNode>(N) && Before.ends_with("{")) ||
        (isa<yaml::SequenceNode>(N) && Before.ends_with("[")))
      return Before.size() - 1;
    return Begin;
  }
  unsigned lineAt(size_t Begin, unsigned Default) {
    if (Begin == StringRef::npos)
      return Default;
    // Values come in order, so each line is counted once.
    if (Begin < CountedTo) {
      CountedTo = 0;
      Counted = FirstLine;
    }
    Counted += Text.slice(CountedTo, Begin).count('\n');
    CountedTo = Begin;
    return Counted;
  }

  Error value(yaml::Node *N, YamlValue &Out, unsigned Line, unsigned Depth) {
    constexpr unsigned MaxDepth = 20;
    Out.Begin = beginOf(N);
    Out.Line = lineAt(Out.Begin, Line);
    if (Out.Begin == StringRef::npos)
      Out.Begin = Text.size();
    if (Depth > MaxDepth)
      return wrong(Out.Line, "values within values, more than 20 deep");
    if (!N || isa<yaml::NullNode>(N))
      return Error::success();
    SmallString<64> Storage;
    if (auto *S = dyn_cast<yaml::ScalarNode>(N)) {
      Out.What = YamlValue::Kind::Text;
      Out.Quoted = S->getRawValue().starts_with("\"") ||
                   S->getRawValue().starts_with("'");
      Out.Text = S->getValue(Storage).str();
      if (!Out.Quoted && (Out.Text == "~" || Out.Text == "null"))
        Out.What = YamlValue::Kind::Nothing;
      return Error::success();
    }
    if (auto *B = dyn_cast<yaml::BlockScalarNode>(N)) {
      Out.What = YamlValue::Kind::Text;
      Out.Quoted = true;
      Out.Text = B->getValue().rtrim('\n').str();
      return Error::success();
    }
    if (auto *List = dyn_cast<yaml::SequenceNode>(N)) {
      Out.What = YamlValue::Kind::List;
      for (yaml::Node &Item : *List)
        if (Error E = value(&Item, Out.Items.emplace_back(), Out.Line,
                            Depth + 1))
          return E;
      return Error::success();
    }
    auto *Map = dyn_cast<yaml::MappingNode>(N);
    if (!Map)
      return wrong(Out.Line, "an alias: write the value again");
    Out.What = YamlValue::Kind::Map;
    for (yaml::KeyValueNode &Pair : *Map) {
      auto *Key = dyn_cast_or_null<yaml::ScalarNode>(Pair.getKey());
      if (!Key)
        return wrong(Out.Line, "a key must be a text");
      YamlEntry Entry;
      Entry.Begin = beginOf(Key);
      Entry.Line = lineAt(Entry.Begin, Out.Line);
      Entry.Key = Key->getValue(Storage).str();
      Storage.clear();
      if (Error E = value(Pair.getValue(), Entry.Value, Entry.Line, Depth + 1))
        return E;
      Out.Entries.push_back(std::move(Entry));
    }
    return Error::success();
  }

  StringRef Path, Text;
  unsigned FirstLine;
  SourceMgr SM;
  std::string Problem;
  unsigned ProblemLine = 0;
  size_t CountedTo = 0;
  unsigned Counted = FirstLine;
};

} // namespace

Expected<YamlValue> parseYaml(StringRef Path, StringRef Text,
                              unsigned FirstLine) {
  return TreeBuilder(Path, Text, FirstLine).read();
}

Error checkOnce(StringRef Path, const YamlValue &Map) {
  StringSet<> Seen;
  for (const YamlEntry &E : Map.Entries)
    if (!Seen.insert(E.Key).second)
      return failure(Path + ":" + Twine(E.Line) + ": '" + E.Key +
                         "' is given twice",
                     "keep one of them; a line of three dashes begins another "
                     "document");
  return Error::success();
}

Error checkKeys(StringRef Path, const YamlValue &Map, StringRef What,
                ArrayRef<std::string> Known) {
  for (const YamlEntry &E : Map.Entries) {
    if (is_contained(Known, E.Key))
      continue;
    std::string Close = closestName(E.Key, Known);
    return failure(Path + ":" + Twine(E.Line) + ": " + What + " has no '" +
                       E.Key + "'",
                   (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                       "it has: " + join(Known, ", "));
  }
  return checkOnce(Path, Map);
}

} // namespace culprit
