//===- CheckFields.cpp - Schemas, layouts and settings ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Golden/Check.h"
#include "Support/Glob.h"
#include "Support/LooseJson.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace culprit {

/// So many keys of one item are told; the rest is counted.
static constexpr size_t MostTold = 4;

using Fields = std::map<std::string, std::string>;

/// Adds the types of \p New to those of \p Types: "integer" and "null" are
/// "integer|null".
static std::string unionOf(StringRef Types, StringRef New) {
  SmallVector<StringRef, 8> All;
  Types.split(All, '|', -1, false);
  New.split(All, '|', -1, false);
  llvm::sort(All);
  All.erase(std::unique(All.begin(), All.end()), All.end());
  return join(All, "|");
}

/// \p Found with the keys that \p Locked takes for data, as "logit_bias.*",
/// under that name.
static Fields withMaps(const Fields &Locked, const Fields &Found) {
  StringSet<> Maps;
  for (const auto &[Key, Value] : Locked)
    if (size_t At = StringRef(Key).find(".*"); At != StringRef::npos)
      Maps.insert(StringRef(Key).take_front(At));
  if (Maps.empty())
    return Found;
  Fields Out;
  for (const auto &[Key, Value] : Found) {
    std::string Name = Key;
    for (size_t Dot = Key.find('.'); Dot != std::string::npos;
         Dot = Key.find('.', Dot + 1))
      if (Maps.contains(StringRef(Key).take_front(Dot))) {
        const size_t End = StringRef(Key).find_first_of(".[", Dot + 1);
        Name = Key.substr(0, Dot) + ".*" +
               (End == StringRef::npos ? "" : Key.substr(End));
        break;
      }
    std::string &Into = Out[Name];
    if (Name == Key && Into.empty())
      Into = Value;
    else
      Into = unionOf(StringRef(Into).rtrim('?'), StringRef(Value).rtrim('?')) +
             "?";
  }
  return Out;
}

/// Types of \p Found that \p Locked does not allow; empty for none.
static std::string foreignTypes(StringRef Locked, StringRef Found) {
  // A value that was always null tells nothing of its type.
  if (Locked == "null")
    return "";
  SmallVector<StringRef, 8> Allowed, Types;
  Locked.split(Allowed, '|', -1, false);
  Found.split(Types, '|', -1, false);
  std::string Out;
  for (StringRef T : Types)
    if (!is_contained(Allowed, T) &&
        !(T == "integer" && is_contained(Allowed, "number")))
      Out += (Out.empty() ? "" : "|") + T.str();
  return Out;
}

/// The path of the object or list that \p Key is in.
static StringRef parentOf(StringRef Key) {
  if (Key.ends_with("[]"))
    return Key.drop_back(2);
  return Key.take_front(std::max<size_t>(Key.rfind('.') + 1, 1) - 1);
}

static bool isSameSetting(StringRef A, StringRef B) {
  if (A == B)
    return true;
  const std::optional<double> X = parseNumber(A), Y = parseNumber(B);
  return (X && Y && *X == *Y) ||
         (A.equals_insensitive(B) &&
          (A.equals_insensitive("true") || A.equals_insensitive("false")));
}

namespace {
/// The difference of one key.
struct FieldGap {
  std::string Says, Expected, Found, Where;
};
} // namespace

/// The difference of the key \p Key, which both have.
static std::optional<FieldGap> gapOf(const GoldenItem &Locked, StringRef Key,
                                     StringRef Before, StringRef Now,
                                     const Observation &Seen) {
  const bool Exact = Locked.Kind == GoldenKind::Exact;
  const auto Place = [&](const Twine &Of) {
    auto It = Seen.Places.find(Of.str());
    return It == Seen.Places.end() ? std::string() : It->second;
  };
  if (Locked.Of == GoldenSubject::Settings) {
    if (!Exact || isSameSetting(Before, Now))
      return std::nullopt;
    return FieldGap{("'" + Key + "' is '" + shortened(Now, 60) + "', not '" +
                     shortened(Before, 60) + "'")
                        .str(),
                    Before.str(), Now.str(), Place(Key)};
  }
  if (Locked.Of == GoldenSubject::Counts) {
    if (isSameSetting(Before, Now))
      return std::nullopt;
    return FieldGap{("prompt '" + Key + "' has " + Now + " tokens, not " +
                     Before)
                        .str(),
                    (Before + " tokens").str(), (Now + " tokens").str(),
                    Place(Key)};
  }
  if (Locked.Of == GoldenSubject::Layout) {
    if (Before.rtrim('?') == Now)
      return std::nullopt;
    return FieldGap{("'" + Key + "' is " + Now + ", not " + Before).str(),
                    Before.str(), Now.str(), ""};
  }
  const bool Optional = Before.consume_back("?"), Lacks = Now.consume_back("?");
  if (const std::string Foreign = foreignTypes(Before, Now);
      !Foreign.empty() || (Exact && Before != Now))
    return FieldGap{("'" + Key + "' is " +
                     (Foreign.empty() ? Now : StringRef(Foreign)) +
                     ", where " + Before + " is expected")
                        .str(),
                    Before.str(), Now.str(),
                    Place(Key + "=" +
                          StringRef(Foreign).split('|').first)};
  if (Lacks && !Optional) {
    const std::string Share = Place(Key);
    return FieldGap{("'" + Key + "' is not in every record, as it was" +
                     (Share.empty() ? "" : ": missing in " + Share))
                        .str(),
                    Before.str(), (Now + "?").str(), ""};
  }
  return std::nullopt;
}

void checkFields(const GoldenItem &Locked, const Observation &Seen,
                 GoldenFinding &F) {
  Fields Before(Locked.find("fields")->Map.begin(),
                Locked.find("fields")->Map.end());
  Fields Now(Seen.Item.find("fields")->Map.begin(),
             Seen.Item.find("fields")->Map.end());
  if (Locked.Of == GoldenSubject::Schema)
    Now = withMaps(Before, Now);
  std::vector<std::string> New;
  for (const auto &[Key, Value] : Now)
    if (!Before.count(Key))
      New.push_back(Key);
  std::vector<FieldGap> Gaps;
  size_t Unsent = 0;
  for (const auto &[Key, Value] : Before) {
    auto It = Now.find(Key);
    if (It != Now.end()) {
      if (std::optional<FieldGap> Gap =
              gapOf(Locked, Key, Value, It->second, Seen))
        Gaps.push_back(std::move(*Gap));
      continue;
    }
    if (Locked.Of == GoldenSubject::Counts) {
      ++Unsent;
      continue;
    }
    // What is inside of something that is gone, null or an empty list is not
    // asked for: a child of it proves nothing.
    const StringRef Parent = parentOf(Key);
    const auto Outer = Now.find(Parent.str());
    const bool ParentGone =
        Locked.Of == GoldenSubject::Schema && Before.count(Parent.str()) &&
        (Outer == Now.end() || !StringRef(Outer->second).contains("object"));
    if (StringRef(Value).ends_with("?") || ParentGone ||
        StringRef(Key).ends_with("[]"))
      continue;
    std::string Close;
    for (const std::string &Other : New)
      if (Now[Other] == Value && Close.empty() &&
          !closestName(Key, {Other}).empty())
        Close = Other;
    Gaps.push_back({"'" + Key + "' is gone" +
                        (Close.empty() ? ""
                                       : "; it may be '" + Close + "' now"),
                    Value, "nothing", ""});
  }
  if (Unsent == Before.size() && Unsent != 0)
    Gaps.push_back({"none of its prompts was sent", "", "", ""});
  if (Locked.Kind == GoldenKind::Exact &&
      (Locked.Of == GoldenSubject::Schema ||
       Locked.Of == GoldenSubject::Layout))
    for (const std::string &Key : New)
      Gaps.push_back({"'" + Key + "' is new", "nothing", Now[Key], ""});
  if (Locked.Of != GoldenSubject::Counts) // other prompts are no matter
    F.Added = std::move(New);
  if (Gaps.empty())
    return;
  F.Is = GoldenFinding::Outcome::Failed;
  for (size_t I = 0; I != std::min(MostTold, Gaps.size()); ++I)
    F.What += (I ? "; " : "") + Gaps[I].Says;
  if (Gaps.size() > MostTold)
    F.What += "; and " + formatCount(int64_t(Gaps.size() - MostTold)) + " more";
  F.Expected = Gaps[0].Expected;
  F.Found = Gaps[0].Found;
  if (!Gaps[0].Where.empty())
    F.First = Gaps[0].Where;
  switch (Locked.Of) {
  case GoldenSubject::Schema:
    F.Next = "clients that read these keys break: restore them, or tell the "
             "clients and accept; a key that may be missing gets '?' in the "
             "lock";
    break;
  case GoldenSubject::Layout:
    F.Next = "checkpoints and ports that load by name break: see what renamed "
             "or reshaped it";
    break;
  case GoldenSubject::Counts:
    F.Next = "another count on the same text is another tokenizer or "
             "template; one more on each is mostly a second "
             "begin-of-sequence token, which both of them add";
    break;
  default:
    F.Next = "a change of settings is made on purpose or is the cause of "
             "other failures below: undo it or accept it first";
    break;
  }
}

} // namespace culprit
