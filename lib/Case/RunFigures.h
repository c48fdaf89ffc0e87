//===- RunFigures.h - The figures of a run's shape as they come -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// What RunShape.cpp and LayerShape.cpp write into. Private to lib/Case.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_CASE_RUNFIGURES_H
#define CULPRIT_CASE_RUNFIGURES_H

#include "Case/CurveFigures.h"
#include <map>
#include <string>

namespace culprit {

enum class Figure {
#define SHAPE(NAME, WHAT, UNIT) NAME,
#include "Case/RunShape.def"
};

class RunFigures {
public:
  /// Keeps \p V, to six decimals; nothing where it is none or not finite.
  void set(Figure F, Number V);

  std::map<std::string, double> ByName;
};

/// Figures of the layers, of which each has a curve of its own.
void addLayerFigures(const RunCurves &Of, RunFigures &To);

} // namespace culprit

#endif // CULPRIT_CASE_RUNFIGURES_H
