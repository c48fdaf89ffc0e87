//===- Figures.h - One number from a column ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
///
/// \file
/// The figures that tables, columns and groups have in common.
///
//===----------------------------------------------------------------------===//

#ifndef CULPRIT_SCRIPT_FIGURES_H
#define CULPRIT_SCRIPT_FIGURES_H

#include "Script/Binding.h"

namespace culprit {

enum class FigureKind { Sum, Min, Max, Mean, Median, Std, RobustStd, Quantile };

/// Those that `aggregate` knows, by name.
inline constexpr std::pair<llvm::StringLiteral, FigureKind> FigureNames[] = {
    {"sum", FigureKind::Sum},       {"min", FigureKind::Min},
    {"max", FigureKind::Max},       {"mean", FigureKind::Mean},
    {"median", FigureKind::Median}, {"std", FigureKind::Std}};

std::optional<FigureKind> figureKind(llvm::StringRef Name);

/// The figure over the values that are there, or none where it has none. Sums,
/// least and largest of integers are integers and exact.
std::optional<Argument> figureOf(llvm::ArrayRef<int64_t> Values,
                                 FigureKind Kind, double Q = 0);
std::optional<Argument> figureOf(llvm::ArrayRef<double> Values, FigureKind Kind,
                                 double Q = 0);

} // namespace culprit

#endif // CULPRIT_SCRIPT_FIGURES_H
