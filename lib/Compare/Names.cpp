//===- Names.cpp ------------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include <map>
#include <optional>

using namespace llvm;

namespace culprit {

StringRef toString(NameRule R) {
  switch (R) {
  case NameRule::Exact:
    return "exact";
  case NameRule::Prefix:
    return "prefix";
  case NameRule::Fused:
    return "fused";
  case NameRule::Near:
    return "near";
  }
  return "";
}

std::string withoutWrappers(StringRef Name) {
  SmallVector<StringRef, 16> Parts;
  Name.split(Parts, '.');
  erase_if(Parts, [](StringRef Part) {
    return Part == "_orig_mod" || Part == "_fsdp_wrapped_module" ||
           Part == "_checkpoint_wrapped_module" || Part == "base_layer";
  });
  // In front only: a model may have a child of such a name.
  std::string Whole = join(Parts, ".");
  StringRef Rest = Whole;
  for (bool Again = true; Again;) {
    Again = false;
    for (StringRef Prefix : {"module.", "base_model.model.", "model."})
      if (Rest.size() > Prefix.size() && Rest.consume_front(Prefix))
        Again = true;
  }
  return Rest.str();
}

bool isDerivedBuffer(StringRef Name) {
  StringRef Last = Name.rsplit('.').second;
  if (Last.empty())
    Last = Name;
  return StringSwitch<bool>(Last)
      .Cases("inv_freq", "position_ids", "num_batches_tracked", true)
      .Cases("masked_bias", "token_type_ids", "cos_cached", "sin_cached", true)
      .Default(Name.ends_with(".attn.bias") ||
               Name.ends_with(".attention.bias"));
}

namespace {
/// The matching as it grows.
class Matcher {
public:
  Matcher(ArrayRef<NamedShape> Ref, ArrayRef<NamedShape> Ours)
      : Ref(Ref), Ours(Ours), RefUsed(Ref.size()), OursUsed(Ours.size()) {}

  NameMatching run();

private:
  void exact();
  void byWrappers();
  void byCommonPrefix();
  void fused();
  void fusedOf(ArrayRef<NamedShape> Parts, std::vector<bool> &PartsUsed,
               ArrayRef<NamedShape> Whole, std::vector<bool> &WholeUsed,
               bool PartsAreRef);
  void near();

  void add(std::vector<size_t> R, std::vector<size_t> O, NameRule Rule,
           std::string Detail = "") {
    for (size_t I : R)
      RefUsed[I] = true;
    for (size_t I : O)
      OursUsed[I] = true;
    Out.Matches.push_back(
        {std::move(R), std::move(O), Rule, std::move(Detail)});
  }

  ArrayRef<NamedShape> Ref, Ours;
  std::vector<bool> RefUsed, OursUsed;
  NameMatching Out;
};
} // namespace

void Matcher::exact() {
  StringMap<size_t> Index;
  for (auto [I, N] : enumerate(Ours))
    Index.try_emplace(N.Name, I);
  for (auto [I, N] : enumerate(Ref))
    if (auto It = Index.find(N.Name); It != Index.end())
      add({I}, {It->second}, NameRule::Exact);
}

/// Which side has more in front: "ours has 'module.'".
static std::string prefixDetail(StringRef R, StringRef O) {
  if (O.ends_with(R))
    return ("ours has '" + O.drop_back(R.size()) + "' in front").str();
  if (R.ends_with(O))
    return ("ref has '" + R.drop_back(O.size()) + "' in front").str();
  return "wrappers differ";
}

void Matcher::byWrappers() {
  // Two names that become one are left to the other rules.
  std::map<std::string, std::vector<size_t>> Index;
  for (auto [I, N] : enumerate(Ours))
    if (!OursUsed[I])
      Index[withoutWrappers(N.Name)].push_back(I);
  for (auto [I, N] : enumerate(Ref)) {
    if (RefUsed[I])
      continue;
    auto It = Index.find(withoutWrappers(N.Name));
    if (It != Index.end() && It->second.size() == 1 &&
        !OursUsed[It->second[0]])
      add({I}, {It->second[0]}, NameRule::Prefix,
          prefixDetail(N.Name, Ours[It->second[0]].Name));
  }
}

/// A prefix of one side that makes at least two names agree and the most.
void Matcher::byCommonPrefix() {
  StringMap<size_t> OursIndex, RefIndex;
  for (auto [I, N] : enumerate(Ours))
    if (!OursUsed[I])
      OursIndex.try_emplace(N.Name, I);
  for (auto [I, N] : enumerate(Ref))
    if (!RefUsed[I])
      RefIndex.try_emplace(N.Name, I);
  const auto Votes = [](const StringMap<size_t> &Long,
                        const StringMap<size_t> &Short) {
    std::map<std::string, size_t> Count;
    for (const auto &Each : Long)
      for (size_t Dot = Each.getKey().find('.'); Dot != StringRef::npos;
           Dot = Each.getKey().find('.', Dot + 1))
        if (Short.contains(Each.getKey().drop_front(Dot + 1)))
          ++Count[Each.getKey().take_front(Dot + 1).str()];
    return Count;
  };
  const auto Best = [](const std::map<std::string, size_t> &Count) {
    std::pair<std::string, size_t> Most;
    for (const auto &Each : Count)
      if (Each.second > Most.second)
        Most = Each;
    return Most;
  };
  const auto OnOurs = Best(Votes(OursIndex, RefIndex));
  const auto OnRef = Best(Votes(RefIndex, OursIndex));
  const bool OursHasIt = OnOurs.second >= OnRef.second;
  const auto &[Prefix, Count] = OursHasIt ? OnOurs : OnRef;
  if (Count < 2)
    return;
  for (auto [I, N] : enumerate(Ref)) {
    if (RefUsed[I])
      continue;
    StringRef Other = N.Name;
    std::string Longer = Prefix + N.Name;
    if (OursHasIt)
      Other = Longer;
    else if (!Other.consume_front(Prefix))
      continue;
    auto It = OursIndex.find(Other);
    if (It != OursIndex.end() && !OursUsed[It->second])
      add({I}, {It->second}, NameRule::Prefix,
          ((OursHasIt ? "ours has '" : "ref has '") + Prefix + "' in front"));
  }
}

namespace {
/// Parts that are fused, in the order in which the fused tensor holds them.
struct Fusion {
  std::vector<std::vector<StringRef>> Parts; ///< Spellings of each.
  std::vector<StringRef> Whole;
};
} // namespace

static const std::vector<Fusion> &fusions() {
  static const std::vector<Fusion> All = {
      {{{"q_proj", "q", "query", "wq", "to_q", "q_lin", "linear_q", "Wq"},
        {"k_proj", "k", "key", "wk", "to_k", "k_lin", "linear_k", "Wk"},
        {"v_proj", "v", "value", "wv", "to_v", "v_lin", "linear_v", "Wv"}},
       {"qkv_proj", "qkv", "c_attn", "query_key_value", "Wqkv", "wqkv",
        "to_qkv", "attn_qkv", "linear_qkv", "in_proj", "in_proj_weight",
        "in_proj_bias"}},
      {{{"gate_proj", "w1", "gate"}, {"up_proj", "w3", "up"}},
       {"gate_up_proj", "gate_up", "w13", "linear_fc1", "w1_w3", "fc1_gate"}}};
  return All;
}

/// \p Shapes joined along the first axis, or the last, make \p Whole.
static bool joinsTo(ArrayRef<const NamedShape *> Parts,
                    const NamedShape &Whole) {
  const size_t Rank = Whole.Shape.size();
  for (size_t Axis : {size_t(0), Rank - 1}) {
    int64_t Sum = 0;
    bool Others = Rank != 0;
    for (const NamedShape *P : Parts) {
      Others &= P->Shape.size() == Rank;
      for (size_t I = 0; Others && I != Rank; ++I)
        if (I == Axis)
          Sum += P->Shape[I];
        else
          Others &= P->Shape[I] == Whole.Shape[I];
    }
    if (Others && Sum == Whole.Shape[Axis])
      return true;
  }
  return false;
}

void Matcher::fusedOf(ArrayRef<NamedShape> Parts, std::vector<bool> &PartsUsed,
                      ArrayRef<NamedShape> Whole, std::vector<bool> &WholeUsed,
                      bool PartsAreRef) {
  StringMap<size_t> PartIndex, WholeIndex;
  for (auto [I, N] : enumerate(Parts))
    if (!PartsUsed[I])
      PartIndex.try_emplace(withoutWrappers(N.Name), I);
  for (auto [I, N] : enumerate(Whole))
    if (!WholeUsed[I])
      WholeIndex.try_emplace(withoutWrappers(N.Name), I);
  for (size_t I = 0; I != Parts.size(); ++I) {
    if (PartsUsed[I])
      continue;
    SmallVector<StringRef, 16> Words;
    const std::string Name = withoutWrappers(Parts[I].Name);
    StringRef(Name).split(Words, '.');
    for (const Fusion &F : fusions())
      for (size_t W = 0; W != Words.size() && !PartsUsed[I]; ++W) {
        const auto Spelling = find(F.Parts[0], Words[W]);
        if (Spelling == F.Parts[0].end())
          continue;
        const size_t Form = size_t(Spelling - F.Parts[0].begin());
        std::vector<size_t> Found;
        std::vector<const NamedShape *> Shapes;
        SmallVector<StringRef, 16> Other = Words;
        for (const auto &Part : F.Parts) {
          if (Form >= Part.size())
            break;
          Other[W] = Part[Form];
          auto It = PartIndex.find(join(Other, "."));
          if (It == PartIndex.end() || PartsUsed[It->second])
            break;
          Found.push_back(It->second);
          Shapes.push_back(&Parts[It->second]);
        }
        if (Found.size() != F.Parts.size())
          continue;
        for (StringRef Form : F.Whole) {
          Other[W] = Form;
          auto It = WholeIndex.find(join(Other, "."));
          if (It == WholeIndex.end() && W + 2 == Words.size()) {
            // in_proj_weight has no dot before its role.
            SmallVector<StringRef, 16> Short(Other.begin(), Other.end() - 1);
            if (Form.ends_with(Words.back()))
              It = WholeIndex.find(join(Short, "."));
          }
          if (It == WholeIndex.end() || WholeUsed[It->second] ||
              !joinsTo(Shapes, Whole[It->second]))
            continue;
          std::vector<size_t> One = {It->second};
          if (PartsAreRef)
            add(Found, One, NameRule::Fused, "ours is fused");
          else
            add(One, Found, NameRule::Fused, "ref is fused");
          break;
        }
      }
  }
}

void Matcher::fused() {
  fusedOf(Ref, RefUsed, Ours, OursUsed, true);
  fusedOf(Ours, OursUsed, Ref, RefUsed, false);
}

/// The numbers of a name: layers must agree whatever else differs.
static std::string numbersOf(StringRef Name) {
  std::string Out;
  for (size_t I = 0; I != Name.size(); ++I) {
    if (isDigit(Name[I]))
      Out += Name[I];
    else if (!Out.empty() && Out.back() != ',')
      Out += ',';
  }
  return Out;
}

void Matcher::near() {
  using Key = std::pair<std::string, std::vector<int64_t>>;
  const auto KeyOf = [](const NamedShape &N) {
    return Key(numbersOf(withoutWrappers(N.Name)),
               {N.Shape.begin(), N.Shape.end()});
  };
  std::map<Key, std::vector<size_t>> Groups;
  for (auto [I, N] : enumerate(Ours))
    if (!OursUsed[I])
      Groups[KeyOf(N)].push_back(I);
  struct Candidate {
    unsigned Distance;
    size_t R, O;
  };
  std::vector<Candidate> All;
  for (auto [I, N] : enumerate(Ref)) {
    auto It = RefUsed[I] ? Groups.end() : Groups.find(KeyOf(N));
    // Thousands of names of one shape and number are no layers.
    if (It == Groups.end() || It->second.size() > 256)
      continue;
    const std::string A = withoutWrappers(N.Name);
    const StringRef Leaf = StringRef(A).rsplit('.').second;
    for (size_t O : It->second) {
      const std::string B = withoutWrappers(Ours[O].Name);
      const unsigned Most = unsigned(std::max(A.size(), B.size())) / 2;
      const unsigned Distance =
          StringRef(A).edit_distance(B, /*AllowReplacements=*/true, Most);
      // weight is never bias.
      if (Distance <= Most && Leaf == StringRef(B).rsplit('.').second)
        All.push_back({Distance, size_t(I), O});
    }
  }
  stable_sort(All, [](const Candidate &A, const Candidate &B) {
    return A.Distance < B.Distance;
  });
  for (const Candidate &C : All) {
    if (RefUsed[C.R] || OursUsed[C.O])
      continue;
    // Two that are equally near leave it open.
    const bool Tie = any_of(All, [&](const Candidate &D) {
      return D.Distance == C.Distance && !RefUsed[D.R] && !OursUsed[D.O] &&
             ((D.R == C.R) != (D.O == C.O));
    });
    if (!Tie)
      add({C.R}, {C.O}, NameRule::Near);
  }
}

NameMatching Matcher::run() {
  exact();
  byWrappers();
  byCommonPrefix();
  fused();
  near();
  stable_sort(Out.Matches, [](const NameMatch &A, const NameMatch &B) {
    return A.Ref[0] < B.Ref[0];
  });
  for (size_t I = 0; I != Ref.size(); ++I)
    if (!RefUsed[I])
      Out.Missing.push_back(I);
  for (size_t I = 0; I != Ours.size(); ++I)
    if (!OursUsed[I])
      Out.Unexpected.push_back(I);
  return std::move(Out);
}

NameMatching matchNames(ArrayRef<NamedShape> Ref, ArrayRef<NamedShape> Ours) {
  return Matcher(Ref, Ours).run();
}

} // namespace culprit
