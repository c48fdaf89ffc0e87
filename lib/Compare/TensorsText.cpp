//===- TensorsText.cpp - A tensor comparison for people ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Compare/Tensors.h"
#include "Compare/MarkdownCell.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace culprit {

/// "block.3.attn.out (step 3)", with the other name where it differs.
static std::string titleOf(const TensorDifference &D) {
  const TensorEntry &R = D.Pair.Ref, &O = D.Pair.Ours;
  std::string Out = R.Name;
  if (O.Name != R.Name)
    Out += " = " + O.Name;
  std::string Place = placeOf(R);
  return Place.empty() ? Out : Out + " (" + Place + ")";
}

static std::string multiIndex(const TensorView &V, int64_t I) {
  return shapeText(V.unravel(I));
}

/// The figures of a difference: "max 3.2e-3 (tolerance 1e-5) at [0, 3], ...".
static std::string figuresOf(const TensorDifference &D) {
  const DifferenceSums &S = D.Sums;
  std::string Out =
      formatv("max {0} beside a tolerance of {1}, relative {2}, cosine {3}",
              formatNumber(S.MaxAbs, 3), formatNumber(D.Allowed, 3),
              formatNumber(S.relL2(), 3), formatNumber(S.cosine(), 6));
  if (S.FirstAbove)
    Out += formatv("; {0} of {1} elements beyond it, {2} first",
                   formatCount(S.Above),
                   formatCount(D.Pair.Ref.View->numel()),
                   multiIndex(*D.Pair.Ref.View, *S.FirstAbove));
  if (S.OursNonFinite || S.RefNonFinite)
    Out += formatv("; {0} NaN or Inf in ours alone, {1} in ref alone",
                   formatCount(S.OursNonFinite), formatCount(S.RefNonFinite));
  return Out;
}

/// The kind in a sentence; empty where it was not searched for.
static std::string kindText(const TensorDifference &D) {
  if (!D.Kind)
    return "";
  std::string Out = D.Kind->Says;
  if (D.Kind->Kind != "unexplained")
    Out += formatv(" ({0}{1}confidence {2:f2})", D.Kind->Class,
                   D.Kind->Class.empty() ? "" : ", ", D.Kind->Confidence);
  return Out;
}

/// The first line: what is wrong, and where that begins.
static std::string headline(const TensorComparison &C) {
  const size_t All = C.Differences.size();
  const size_t Different = C.count(CompareVerdict::Different);
  if (C.First) {
    const TensorDifference &D = C.Differences[C.First->Difference];
    std::string Out = titleOf(D) + " is the first that differs";
    if (D.Kind)
      Out += ": " + D.Kind->Says;
    if (Different > 1)
      Out += formatv("; {0} of {1} tensors differ",
                     formatCount(int64_t(Different)),
                     formatCount(int64_t(All)));
    return Out;
  }
  if (All == 0)
    return "no tensor of one side has a partner on the other";
  if (C.Verdict == CompareVerdict::Different)
    return formatv("the {0} tensors that both sides have agree, but the sets "
                   "of tensors differ",
                   formatCount(int64_t(All)));
  if (C.Verdict == CompareVerdict::WithinNoise)
    return formatv("{0} tensors agree, {1} of them to the last bit: the rest "
                   "is rounding",
                   formatCount(int64_t(All)),
                   formatCount(int64_t(C.count(CompareVerdict::Same))));
  return formatv("{0} tensors are equal", formatCount(int64_t(All)));
}

/// What went into the first layer that differs.
static std::string inputText(const TensorComparison &C) {
  if (!C.First || !C.First->InputRelL2)
    return "";
  const TensorDifference &D = C.Differences[C.First->Difference];
  const double In = *C.First->InputRelL2, Out = D.Sums.relL2();
  std::string Text =
      formatv("what goes into it ({0}) has a relative error of {1}, what comes "
              "out one of {2}",
              C.First->Input, formatNumber(In, 3), formatNumber(Out, 3));
  if (!(Out > 10 * In))
    Text += ": the error comes from before, where nothing that was dumped "
            "shows it";
  return Text;
}

namespace {
/// Names that make a section: its title and lines.
struct Section {
  std::string Title;
  std::vector<std::string> Lines;
};
} // namespace

static std::string pairText(const NamePair &P) {
  std::string Out = P.Ref;
  if (P.Ours != P.Ref && !P.Ours.empty())
    Out += (Out.empty() ? "" : " = ") + P.Ours;
  return P.Detail.empty() ? Out : Out + ": " + P.Detail;
}

static std::vector<Section> sectionsOf(const TensorComparison &C) {
  std::vector<Section> Out;
  const auto Add = [&](std::string Title, std::vector<std::string> Lines) {
    if (!Lines.empty())
      Out.push_back({std::move(Title), std::move(Lines)});
  };
  const auto Pairs = [](ArrayRef<NamePair> List) {
    std::vector<std::string> Lines;
    for (const NamePair &P : List)
      Lines.push_back(pairText(P));
    return Lines;
  };
  const NameReport &N = C.Names;
  Add("missing in ours", N.Missing);
  Add("only in ours", N.Unexpected);
  Add("shapes that differ", Pairs(N.Shapes));
  Add("dtypes that differ", Pairs(N.DTypes));
  Add("fused on one side", Pairs(N.Fused));
  Add("under another name", Pairs(N.Renamed));
  Add("not compared", Pairs(N.NotCompared));
  return Out;
}

static SmallVector<const TensorDifference *, 16>
shownOf(const TensorComparison &C, unsigned Top) {
  SmallVector<const TensorDifference *, 16> Out;
  for (const TensorDifference &D : C.Differences)
    if (D.Verdict == CompareVerdict::Different && Out.size() < Top)
      Out.push_back(&D);
  return Out;
}

static std::string countsOf(const TensorComparison &C) {
  return formatv("{0} and {1} tensors, {2} names in both, {3} pairs compared: "
                 "{4} equal, {5} within noise, {6} different",
                 formatCount(int64_t(C.RefTensors)),
                 formatCount(int64_t(C.OursTensors)),
                 formatCount(int64_t(C.Names.Matched)),
                 formatCount(int64_t(C.Differences.size())),
                 formatCount(int64_t(C.count(CompareVerdict::Same))),
                 formatCount(int64_t(C.count(CompareVerdict::WithinNoise))),
                 formatCount(int64_t(C.count(CompareVerdict::Different))));
}

void printTensors(raw_ostream &OS, const TensorComparison &C, unsigned Top) {
  OS << headline(C) << "\n\n";
  OS << "  ref   " << C.RefPath << "\n  ours  " << C.OursPath << '\n';
  if (!C.NoisePath.empty())
    OS << "  noise " << C.NoisePath << '\n';
  OS << "  " << countsOf(C) << '\n';
  if (std::string Input = inputText(C); !Input.empty())
    OS << "  " << Input << '\n';
  if (C.Steps)
    OS << "  over the steps: " << C.Steps->Says
       << (C.Steps->Class.empty() ? "" : " (" + C.Steps->Class + ")") << '\n';

  const auto Shown = shownOf(C, Top);
  if (!Shown.empty())
    OS << "\ndifferent, in execution order\n";
  for (const TensorDifference *D : Shown) {
    OS << "  " << titleOf(*D) << '\n';
    if (std::string Kind = kindText(*D); !Kind.empty())
      OS << "    " << Kind << '\n';
    OS << "    " << figuresOf(*D) << '\n';
    OS << "    tolerance from " << D->Tolerance.Basis << '\n';
  }
  const size_t Different = C.count(CompareVerdict::Different);
  if (Shown.size() < Different)
    OS << "  and " << formatCount(int64_t(Different - Shown.size()))
       << " more; --top=N shows N\n";

  for (const Section &S : sectionsOf(C)) {
    OS << '\n' << S.Title << '\n';
    for (const std::string &Line : ArrayRef(S.Lines).take_front(Top))
      OS << "  " << Line << '\n';
    if (S.Lines.size() > Top)
      OS << "  and " << formatCount(int64_t(S.Lines.size() - Top)) << " more\n";
  }
  if (!C.Remarks.empty())
    OS << '\n';
  for (const std::string &R : C.Remarks)
    OS << "note: " << R << '\n';
}

void printTensorsMarkdown(raw_ostream &OS, const TensorComparison &C,
                          unsigned Top) {
  OS << "**" << markdownCell(headline(C)) << "**\n\n";
  OS << "- ref: " << markdownCell(C.RefPath)
     << "\n- ours: " << markdownCell(C.OursPath) << '\n';
  OS << "- " << countsOf(C) << '\n';
  if (std::string Input = inputText(C); !Input.empty())
    OS << "- " << markdownCell(Input) << '\n';
  if (C.Steps)
    OS << "- over the steps: " << markdownCell(C.Steps->Says) << '\n';
  const auto Shown = shownOf(C, Top);
  if (!Shown.empty())
    OS << "\n| tensor | kind | max | tolerance | relative | cosine |\n"
          "|---|---|--:|--:|--:|--:|\n";
  for (const TensorDifference *D : Shown)
    OS << "| " << markdownCell(titleOf(*D)) << " | " << markdownCell(kindText(*D)) << " | "
       << formatNumber(D->Sums.MaxAbs, 3) << " | "
       << formatNumber(D->Allowed, 3) << " | "
       << formatNumber(D->Sums.relL2(), 3) << " | "
       << formatNumber(D->Sums.cosine(), 6) << " |\n";
  const size_t Different = C.count(CompareVerdict::Different);
  if (Shown.size() < Different)
    OS << "\n" << formatCount(int64_t(Different - Shown.size()))
       << " more differ.\n";
  for (const Section &S : sectionsOf(C)) {
    OS << '\n' << S.Title << ":\n\n";
    for (const std::string &Line : ArrayRef(S.Lines).take_front(Top))
      OS << "- " << markdownCell(Line) << '\n';
    if (S.Lines.size() > Top)
      OS << "- and " << formatCount(int64_t(S.Lines.size() - Top)) << " more\n";
  }
  if (!C.Remarks.empty())
    OS << '\n';
  for (const std::string &R : C.Remarks)
    OS << "- " << markdownCell(R) << '\n';
}

} // namespace culprit
