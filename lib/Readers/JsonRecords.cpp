//===- JsonRecords.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/JsonRecords.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>
#include <string>

using namespace llvm;

namespace culprit {

using Token = LooseJson::Token;

/// Walks the object begun and calls \p Leaf with the key path of each leaf,
/// which starts with \p Prefix.
template <typename LeafT>
static bool walk(LooseJson &In, StringRef Prefix, LeafT Leaf) {
  // Lengths of the path before each open object.
  SmallVector<size_t, 8> Outer = {0};
  std::string Path = Prefix.str();
  size_t Before = 0;
  for (;;) {
    Token T = In.next();
    switch (T) {
    case Token::Key:
      Before = Path.size();
      if (!Path.empty())
        Path += '/';
      Path += In.text();
      continue;
    case Token::Object:
      Outer.push_back(Before);
      continue;
    case Token::EndObject:
      Path.resize(Outer.pop_back_val());
      if (Outer.empty())
        return true;
      continue;
    case Token::Array:
      if (!In.skip(T))
        return false;
      break;
    case Token::Error:
    case Token::End:
      return false;
    default:
      Leaf(T, Path);
    }
    Path.resize(Before);
  }
}

namespace {
/// Numbers of a record, of which those that a value was collected into stand
/// for it: {"num": 64, "mean": 2.5, "std": 0.1}, in this order, as dnnlib's
/// training_stats writes them, is 2.5. A lone `num` or `std` is a number.
class Collected {
public:
  explicit Collected(ScalarRows &Rows) : Rows(Rows) {}

  void number(StringRef Key, double Value) {
    auto [Outer, Leaf] = Key.rsplit('/');
    const bool Within = Outer != Key && Outer == Name;
    if (Within && Leaf == "mean" && Count) {
      Count.reset();
      return Rows.number(Name, Value);
    }
    if (Within && Leaf == "std" && !Count)
      return;
    flush();
    if (Outer != Key && Leaf == "num") {
      Name = Outer.str();
      Count = Value;
      return;
    }
    Rows.number(Key, Value);
  }

  /// Gives a `num` that no mean came after.
  void flush() {
    if (Count)
      Rows.number(Name + "/num", *Count);
    Count.reset();
    Name.clear();
  }

private:
  ScalarRows &Rows;
  std::string Name;
  std::optional<double> Count;
};
} // namespace

bool readRecord(LooseJson &In, ScalarRows &Rows, StringRef Prefix) {
  Collected Numbers(Rows);
  const bool Whole = walk(In, Prefix, [&](Token T, StringRef Key) {
    if (T == Token::Number) {
      Numbers.number(Key, In.number());
    } else if (T == Token::String) {
      Numbers.flush();
      Rows.string(Key, In.text());
    }
  });
  Numbers.flush();
  return Whole;
}

void collectKeys(StringRef Text, std::vector<std::string> &Keys) {
  LooseJson In(Text);
  if (In.next() != Token::Object)
    return;
  walk(In, "", [&](Token T, StringRef Key) {
    const bool Number = T == Token::Number ||
                        (T == Token::String && parseNumber(In.text()));
    if (Number && !is_contained(Keys, Key))
      Keys.push_back(Key.str());
  });
}

/// Keys of a step that settings have as well, for the length of the run.
static bool isPlan(StringRef Key) {
  for (StringRef Plural : {"steps", "iters", "total_timesteps", "num_updates"})
    if (Key.equals_insensitive(Plural))
      return true;
  return false;
}

RecordShape shapeOf(StringRef Text, size_t *End) {
  RecordShape Out;
  LooseJson In(Text);
  if (In.next() != Token::Object)
    return Out;
  bool Counted = false; // a step that is no plan
  Out.Object = walk(In, "", [&](Token T, StringRef Key) {
    FieldKind Kind = fieldKind(Key);
    bool Number = T == Token::Number || T == Token::Null ||
                  (T == Token::String && parseNumber(In.text()));
    Out.Layer |= Kind == FieldKind::Layer || Kind == FieldKind::Metric;
    if ((Kind == FieldKind::Step || Kind == FieldKind::Batch) &&
        T != Token::Null) {
      Out.Step |= Number || T == Token::String;
      Counted |= !isPlan(Key);
    }
    if (!Number) {
      Out.Texts += T == Token::String && Kind == FieldKind::Scalar;
      return;
    }
    ++Out.Numbers;
    if (Kind != FieldKind::Scalar || T == Token::Null)
      return;
    Out.Known |= scalarName(Key).Known;
    Out.LossLike |= isLossLike(Key);
  });
  Out.Planned = Out.Step && !Counted;
  if (End)
    *End = In.end();
  return Out;
}

} // namespace culprit
