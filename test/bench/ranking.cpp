//===- ranking.cpp - How long ranking takes ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The posterior of a network of 500 causes and 300 symptoms that were all
// looked for, of which 5 %, 10 % and 20 % are there. Each cause names twelve
// symptoms, drawn by lot; 40 causes are weighed against each other.
//
//   ninja -C build ranking && build/test/ranking
//
//===----------------------------------------------------------------------===//

#include "Rank/Network.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <chrono>
#include <random>

using namespace culprit;

/// Prints the median of 51 posteriors with \p Percent of the symptoms there.
static void measure(unsigned Percent) {
  std::mt19937 Random(1);
  std::uniform_real_distribution<> Unit(0, 1);
  Network N;
  for (unsigned S = 0; S != 300; ++S)
    N.Symptoms.push_back({"s" + std::to_string(S), 0.004 + 0.03 * Unit(Random)});
  for (unsigned C = 0; C != 500; ++C) {
    CauseNode Cause{"c" + std::to_string(C), 0.05, {}};
    std::vector<bool> Taken(300);
    for (unsigned L = 0; L != 12; ++L) {
      unsigned S = static_cast<unsigned>(Random() % 300);
      if (!Taken[S])
        Cause.Links.push_back({S, 0.3 + 0.65 * Unit(Random), L > 9});
      Taken[S] = true;
    }
    N.Causes.push_back(std::move(Cause));
  }
  CauseNode Unknown{"unknown", 0.04, {}};
  std::vector<Observation> Seen(300);
  for (unsigned S = 0; S != 300; ++S) {
    bool There = Unit(Random) * 100 < Percent;
    Seen[S] = {There ? Presence::Present : Presence::Absent,
               There ? 0.5 + 0.5 * Unit(Random) : 0};
    if (There)
      Unknown.Links.push_back({S, 0.15, false});
  }
  N.Unknown = 500;
  N.Causes.push_back(std::move(Unknown));
  std::vector<double> Times;
  size_t Sets = 0;
  for (unsigned I = 0; I != 51; ++I) {
    auto Start = std::chrono::steady_clock::now();
    Sets = posterior(N, Seen).Sets.size();
    Times.push_back(std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - Start)
                        .count());
  }
  std::nth_element(Times.begin(), Times.begin() + 25, Times.end());
  llvm::outs() << llvm::format(
      "%2u %% of 300 symptoms there: %.2f ms, %zu sets that count\n", Percent,
      Times[25], Sets);
}

int main() {
  for (unsigned Percent : {5, 10, 20})
    measure(Percent);
}
