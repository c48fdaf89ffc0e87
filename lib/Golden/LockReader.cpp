//===- LockReader.cpp - A golden lock from its text -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/LockFile.h"
#include "Golden/LockScanner.h"
#include "Support/Error.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

namespace {

/// One pass over the text.
class LockReader : LockScanner {
public:
  LockReader(StringRef Text, StringRef Path) : LockScanner(Text, Path) {}

  Expected<std::vector<GoldenItem>> read();

private:
  bool block(GoldenValue &Out, size_t Column);
  bool value(GoldenValue &Out, size_t Column);
  bool item();
  bool take(GoldenItem &Item, StringRef Key, GoldenValue Value);
  bool items();

  std::vector<GoldenItem> Items;
};

} // namespace

bool LockReader::block(GoldenValue &Out, size_t Column) {
  const size_t Own = Indent;
  Out.Is = atListMark() ? GoldenValue::Form::List : GoldenValue::Form::Map;
  while (true) {
    std::string Word, Value;
    if (Out.Is == GoldenValue::Form::List) {
      if (!atListMark())
        return fail("a list goes on without '-'");
      ++At;
      skipSpaces();
      if (!word(Word, Own))
        return false;
      Out.List.push_back(std::move(Word));
    } else {
      if (!key(Word) || !word(Value, Own))
        return false;
      Out.Map.push_back({std::move(Word), std::move(Value)});
    }
    const Mark Before = mark();
    const bool More = nextContent();
    if (Problem)
      return false;
    if (More && Indent == Own && (Own > Column || atListMark()))
      continue;
    if (More && Indent > Column && Own > Column)
      return fail("the line is indented unlike those before it");
    backTo(Before);
    return true;
  }
}

/// What stands behind a key at \p Column.
bool LockReader::value(GoldenValue &Out, size_t Column) {
  Out.Line = Line;
  if (peek() == '[' || peek() == '{')
    return flow(Out);
  if (!atLineEnd() && peek() != '#')
    return word(Out.Text, Column);
  if (!endLine())
    return false;
  const Mark Before = mark();
  if (nextContent() &&
      (Indent > Column || (Indent == Column && atListMark())))
    return block(Out, Column);
  backTo(Before);
  return !Problem;
}

bool LockReader::take(GoldenItem &Item, StringRef Key, GoldenValue Value) {
  const bool IsText = Value.Is == GoldenValue::Form::Text;
  const auto Wrong = [&](const Twine &Message, const Twine &Hint) {
    Line = Value.Line;
    return fail(Message, Hint);
  };
  if (Key == "tolerance") {
    if (IsText && (Value.Text == "none" || Value.Text.empty()))
      return true;
    if (Value.Is != GoldenValue::Form::Map)
      return Wrong("'tolerance' is neither 'none' nor numbers by name",
                   "for example tolerance: {rtol: 0.1}");
    for (const auto &[Name, Text] : Value.Map) {
      const std::optional<double> Number = parseNumber(Text);
      if (!Number)
        return Wrong("tolerance '" + Name + "' is '" + Text +
                         "', which is no number",
                     "for example " + Name + ": 0.1");
      Item.Tolerance.push_back({Name, *Number});
    }
    return true;
  }
  if (Key != "id" && Key != "kind" && Key != "of" && Key != "why") {
    Item.Values.push_back({Key.str(), std::move(Value)});
    return true;
  }
  if (!IsText)
    return Wrong("'" + Key + "' is no single value", "write one word");
  if (Key == "id") {
    Item.Id = Value.Text;
  } else if (Key == "why") {
    Item.Why = Value.Text;
  } else if (Key == "kind") {
    const std::optional<GoldenKind> K = goldenKind(Value.Text);
    if (!K)
      return Wrong("there is no kind '" + Value.Text + "'",
                   "one of exact, statistical, structural, regression");
    Item.Kind = *K;
  } else {
    const std::optional<GoldenSubject> S = goldenSubject(Value.Text);
    if (!S)
      return Wrong("'of' is '" + Value.Text + "', which is nothing to hold",
                   "docs/golden.md lists what an item may be of");
    Item.Of = *S;
  }
  return true;
}

bool LockReader::item() {
  GoldenItem Item;
  Item.FirstLine = Line;
  const size_t Outer = Indent;
  ++At; // the dash
  const size_t Begin = At;
  skipSpaces();
  const size_t Column = Outer + 1 + (At - Begin);
  StringSet<> Seen;
  while (true) {
    std::string Key;
    GoldenValue Value;
    Value.Line = Line;
    if (!key(Key))
      return false;
    if (!Seen.insert(Key).second)
      return fail("'" + Key + "' is there twice in one item");
    if (!value(Value, Column) || !take(Item, Key, std::move(Value)))
      return false;
    Item.EndLine = LastLine + 1;
    if (!nextContent() || Indent <= Outer)
      break;
    if (Indent != Column)
      return fail("the line is indented unlike the lines of its item");
  }
  if (Problem)
    return false;
  for (StringRef Key : {"id", "kind", "of"})
    if (!Seen.contains(Key)) {
      Line = Item.FirstLine;
      return fail("the item has no '" + Key + "'");
    }
  Items.push_back(std::move(Item));
  return true;
}

bool LockReader::items() {
  if (!atLineEnd() && peek() != '#') {
    GoldenValue None;
    if (peek() != '[')
      return fail("'items' is no list");
    if (!flow(None) || (!None.List.empty() && !fail("an item has no keys")))
      return false;
    nextContent();
    return !Problem;
  }
  if (!endLine())
    return false;
  bool More = nextContent();
  const size_t Outer = Indent;
  while (More && atListMark() && Indent == Outer) {
    if (!item())
      return false;
    More = !atEnd();
  }
  return !Problem;
}

Expected<std::vector<GoldenItem>> LockReader::read() {
  bool Version = false, Any = false;
  bool More = nextContent();
  if (More && Text.substr(At).starts_with("---")) {
    At += 3;
    More = endLine() && nextContent();
  }
  while (More && !Problem) {
    std::string Key, Value;
    if (Indent != 0) {
      fail("the line belongs to no item");
      break;
    }
    if (!key(Key))
      break;
    if (Key == "items") {
      Any = true;
      if (!items())
        break;
    } else if (Key == "culprit_golden") {
      if (!word(Value, 0))
        break;
      if (Value != "1") {
        --Line;
        fail("a golden lock of version '" + Value + "'",
             "this culprit reads version 1");
        break;
      }
      Version = true;
    } else {
      fail("there is no '" + Key + "' in a golden lock");
      break;
    }
    // items() stops at the first line that is no item.
    More = atEnd() ? false : Key == "items" ? true : nextContent();
  }
  if (!Problem && (!Version || !Any)) {
    Line = 1;
    fail(Version ? "no golden lock: it has no 'items'"
                 : "no golden lock: it has no 'culprit_golden: 1'",
         "give the file that culprit golden record wrote, first, then the "
         "files of the run");
  }
  if (Problem)
    return std::move(*Problem);
  StringSet<> Ids;
  for (const GoldenItem &I : Items) {
    if (Error E = checkForm(I, Path))
      return E;
    if (I.Id.empty() || !Ids.insert(I.Id).second)
      return failure(Path + ":" + Twine(I.FirstLine) +
                         (I.Id.empty() ? ": the item has an empty id"
                                       : ": item '" + I.Id + "' is there "
                                                             "twice"),
                     "a merge may have kept both sides: delete one");
  }
  return std::move(Items);
}

Expected<std::vector<GoldenItem>> readLock(StringRef Text, StringRef Path) {
  return LockReader(Text, Path).read();
}

bool isGoldenLock(StringRef Head) {
  Head.consume_front("\xEF\xBB\xBF");
  while (!Head.empty()) {
    auto [Row, Rest] = Head.split('\n');
    if (Row.starts_with("culprit_golden:"))
      return true;
    Row = Row.trim();
    if (!Row.empty() && !Row.starts_with("#") && Row != "---")
      return false;
    Head = Rest;
  }
  return false;
}

} // namespace culprit
