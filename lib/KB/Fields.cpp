//===- Fields.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/Fields.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace culprit {

static std::string lines(ArrayRef<std::string> Items) {
  return join(Items.begin(), Items.end(), "\n");
}

std::array<std::string, NumFields> fieldTexts(const Entry &E,
                                              const Vocabulary &V) {
  std::string Class = E.Class;
  if (const ClassTerm *T = V.rootCause(E.Class))
    Class += "\n" + T->Layer + "\n" + T->Definition;
  std::string Signals;
  for (const Signal &S : E.Signals)
    if (S.How <= Frequency::Often)
      if (const SymptomTerm *T = V.symptom(S.Symptom))
        Signals += T->Text + "\n";
  std::string Rest =
      join_items("\n", E.Workarounds, E.Confirm.Experiment, E.Confirm.Confirms,
                 E.Confirm.Refutes, E.Files, lines(E.Prevention));
  for (const OtherSection &S : E.Other)
    Rest += "\n" + S.Text;
  // In the order of Fields.def.
  return {E.Title,
          E.Symptom,
          lines(E.AlsoSeenAs),
          lines(E.LogFragments),
          lines(E.FailsWhen),
          lines(E.WorksWhen),
          E.RootCause,
          E.Fix,
          Class,
          Signals,
          Rest};
}

} // namespace culprit
