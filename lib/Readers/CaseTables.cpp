//===- CaseTables.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/CaseTables.h"
#include "Readers/WrittenRows.h"
#include "Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include <cmath>
#include <cstring>

using namespace llvm;

namespace culprit {

Match CaseTablesReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  while (!Head.empty()) {
    auto [Line, Rest] = Head.split('\n');
    StringRef Text = Line.trim();
    if (!Text.empty() && !Text.starts_with("#") && Text != "---" &&
        Text != "{")
      return Text.starts_with("culprit_case:") ||
                     Text.starts_with("{\"culprit_case\":") ||
                     Text.starts_with("\"culprit_case\":")
                 ? Match::Certain
                 : Match::No;
    Head = Rest;
  }
  return Match::No;
}

namespace {

bool isNullWord(StringRef Text) {
  return Text.empty() || Text == "~" || Text == "null" || Text == "-";
}

/// Fills one Source from one document.
class CaseText {
public:
  CaseText(StringRef Path, Source &Into) : Path(Path), Into(Into) {}

  Error read(StringRef Text) {
    std::string Problem;
    SM.setDiagHandler(
        [](const SMDiagnostic &D, void *Out) {
          std::string &Message = *static_cast<std::string *>(Out);
          if (Message.empty())
            Message = (Twine(D.getLineNo()) + ": " + D.getMessage()).str();
        },
        &Problem);
    yaml::Stream Stream(Text, SM, /*ShowColors=*/false);
    auto Document = Stream.begin();
    auto *Root = Document == Stream.end()
                     ? nullptr
                     : dyn_cast_or_null<yaml::MappingNode>(Document->getRoot());
    if (!Root)
      return failure(Path + ":" +
                         (Problem.empty() ? "1: not a mapping of tables"
                                          : Problem),
                     "docs/case-format.md shows the form");
    for (yaml::KeyValueNode &Pair : *Root) {
      std::string Name = scalar(Pair.getKey());
      if (Name == "culprit_case")
        continue;
      if (Error E = table(Name, Pair.getKey(), Pair.getValue()))
        return E;
    }
    if (Stream.failed())
      return failure(Path + ":" + Problem,
                     "the tables before it were read; docs/case-format.md "
                     "shows the form");
    return Error::success();
  }

private:
  static std::string scalar(yaml::Node *N) {
    SmallString<64> Storage;
    if (auto *S = dyn_cast_or_null<yaml::ScalarNode>(N))
      return S->getValue(Storage).str();
    return "";
  }

  /// The line of \p N, for messages; 0 where it stands nowhere, as a value
  /// that is left out or that the text breaks off in.
  unsigned lineOf(yaml::Node *N) {
    SMLoc At = N ? N->getSourceRange().Start : SMLoc();
    return At.isValid() && SM.FindBufferContainingLoc(At)
               ? SM.getLineAndColumn(At).first
               : 0;
  }

  WrittenCell cell(yaml::Node *N) {
    WrittenCell Out;
    if (auto *List = dyn_cast_or_null<yaml::SequenceNode>(N)) {
      for (yaml::Node &Item : *List) {
        int64_t Value = 0;
        StringRef(scalar(&Item)).getAsInteger(10, Value);
        Out.List.push_back(Value);
      }
      Out.Null = Out.List.empty();
      return Out;
    }
    Out.Text = scalar(N);
    Out.Null = isa_and_nonnull<yaml::NullNode>(N) || isNullWord(Out.Text);
    return Out;
  }

  Error table(StringRef Name, yaml::Node *Key, yaml::Node *Value) {
    unsigned Line = lineOf(Value) ? lineOf(Value) : lineOf(Key);
    std::optional<TableId> Id = findTable(Name);
    if (!Id || schema(*Id).Kind == TableSchema::Origin::Derived) {
      std::vector<std::string> Names;
      for (const TableSchema &T : schemas())
        if (T.Kind == TableSchema::Origin::Recorded)
          Names.push_back(T.Name.str());
      std::string Close = closestName(Name, Names);
      return failure(Path + ":" + Twine(Line) + ": unknown table '" + Name +
                         "'",
                     Close.empty() ? "tables: " + join(Names, ", ")
                                   : "did you mean '" + Close + "'?");
    }
    if (auto *List = dyn_cast_or_null<yaml::SequenceNode>(Value);
        List && *Id == TableId::tensors)
      return tensors(*List);
    auto *Map = dyn_cast_or_null<yaml::MappingNode>(Value);
    if (!Map)
      return failure(Path + ":" + Twine(Line) + ": table '" + Name +
                         "' has no columns and rows",
                     "write columns: [...] and rows: [[...], ...]");
    WrittenRows Out;
    Out.File = Path.str();
    Out.Line = Line;
    for (yaml::KeyValueNode &Pair : *Map) {
      std::string Key = scalar(Pair.getKey());
      unsigned At = lineOf(Pair.getKey());
      if (Error E = known(Key, {"columns", "rows", "repeat", "every"},
                          "table '" + Name + "'", At))
        return E;
      yaml::Node *Item = Pair.getValue();
      if (Key == "repeat" || Key == "every") {
        if (StringRef(scalar(Item))
                .getAsInteger(10, Key == "repeat" ? Out.Repeat : Out.Every))
          return wrong(At, "'" + Key + "' must be a whole number");
        continue;
      }
      auto *List = dyn_cast_or_null<yaml::SequenceNode>(Item);
      if (!List)
        return wrong(At, "'" + Key + "' must be a list",
                     "write columns: [...] and rows: [[...], ...]");
      if (Key == "columns")
        Out.Line = At;
      for (yaml::Node &Element : *List)
        if (Key == "columns")
          Out.Columns.push_back(scalar(&Element));
        else if (Error E = row(Element, Out))
          return E;
    }
    return addRows(*Id, Out, Into);
  }

  Error row(yaml::Node &Element, WrittenRows &Out) {
    unsigned Line = lineOf(&Element);
    auto *Cells = dyn_cast<yaml::SequenceNode>(&Element);
    if (!Cells)
      return wrong(Line, "a row must be a list of cells",
                   "write rows: [[...], [...]]");
    std::vector<WrittenCell> Row;
    for (yaml::Node &C : *Cells)
      Row.push_back(cell(&C));
    Out.Rows.push_back(std::move(Row));
    Out.Lines.push_back(Line);
    return Error::success();
  }

  Error wrong(unsigned Line, const Twine &What, const Twine &Hint = "") {
    return failure(Path + ":" + Twine(Line) + ": " + What, Hint);
  }

  /// Fails when \p Key of \p What is none of \p Keys.
  Error known(StringRef Key, ArrayRef<std::string> Keys, const Twine &What,
              unsigned Line) {
    if (is_contained(Keys, Key))
      return Error::success();
    std::string Close = closestName(Key, Keys);
    return wrong(Line, What + " has no '" + Key + "'",
                 (Close.empty() ? "" : "did you mean '" + Close + "'? ") +
                     "it has: " + join(Keys, ", "));
  }

  Error tensors(yaml::SequenceNode &List) {
    for (yaml::Node &Item : List) {
      auto *Map = dyn_cast<yaml::MappingNode>(&Item);
      if (!Map)
        continue;
      TensorRecord Record;
      std::vector<double> Values;
      std::string Type = "float32";
      for (yaml::KeyValueNode &Pair : *Map) {
        std::string Key = scalar(Pair.getKey());
        if (Error E = known(Key,
                            {"name", "layer", "role", "variant", "dtype",
                             "step", "order", "token", "rank", "shape",
                             "data"},
                            "a tensor", lineOf(Pair.getKey())))
          return E;
        yaml::Node *Value = Pair.getValue();
        int64_t Number = 0;
        if (Key == "data" || Key == "shape") {
          if (auto *Cells = dyn_cast_or_null<yaml::SequenceNode>(Value))
            for (yaml::Node &C : *Cells) {
              double V = 0;
              parseNumber(scalar(&C), V);
              if (Key == "data")
                Values.push_back(V);
              else
                Record.Data.Shape.push_back(V >= 0 && V < 1e15 ? int64_t(V)
                                                               : 0);
            }
          continue;
        }
        std::string Text = scalar(Value);
        bool IsInt = !StringRef(Text).getAsInteger(10, Number);
        if (Key == "name")
          Record.Name = Text;
        else if (Key == "layer")
          Record.Layer = Text;
        else if (Key == "role")
          Record.Role = Text;
        else if (Key == "variant")
          Record.Variant = Text;
        else if (Key == "dtype")
          Type = Text;
        else if (Key == "step" && IsInt)
          Record.Step = Number;
        else if (Key == "order" && IsInt)
          Record.Order = Number;
        else if (Key == "token" && IsInt)
          Record.Token = Number;
        else if (Key == "rank" && IsInt)
          Record.Rank = Number;
      }
      if (Error E = addTensor(std::move(Record), Type, Values, lineOf(Map)))
        return E;
    }
    return Error::success();
  }

  Error addTensor(TensorRecord Record, StringRef Type, ArrayRef<double> Values,
                  unsigned Line) {
    auto Bytes = std::make_shared<std::vector<uint8_t>>();
    auto put = [&](auto Value) {
      const auto *First = reinterpret_cast<const uint8_t *>(&Value);
      Bytes->insert(Bytes->end(), First, First + sizeof(Value));
    };
    if (Type != "float32" && Type != "float64" && Type != "int64")
      return failure(Path + ":" + Twine(Line) + ": dtype '" + Type +
                         "' cannot be written as text",
                     "use float32, float64 or int64, or a safetensors file");
    for (double V : Values) {
      if (Type == "float32")
        put(static_cast<float>(V));
      else if (Type == "float64")
        put(V);
      else
        put(std::fabs(V) < 9.2e18 ? static_cast<int64_t>(V) : int64_t(0));
    }
    Record.Data.Type = Type == "float32"   ? DType::Float32
                       : Type == "float64" ? DType::Float64
                                           : DType::Int64;
    double Numel = 1; // a product may be of any size
    for (int64_t D : Record.Data.Shape)
      Numel *= static_cast<double>(D);
    if (Record.Data.Shape.empty() ||
        Numel != static_cast<double>(Values.size()))
      Record.Data.Shape = {static_cast<int64_t>(Values.size())};
    Record.Data.Bytes = *Bytes;
    Into.keepAlive(Bytes);
    Into.addTensor(std::move(Record));
    return Error::success();
  }

  StringRef Path;
  Source &Into;
  SourceMgr SM;
};

} // namespace

Error readCaseTables(StringRef Path, StringRef Text, Source &Into) {
  return CaseText(Path, Into).read(Text);
}

Error CaseTablesReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  return readCaseTables(File.path(), *Text, Into);
}

} // namespace culprit
