//===- json-parse.cpp - The trace parser beside simdjson --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Parses the events of a plain Kineto trace on one core, once with culprit's
// EventCursor and once with simdjson's on-demand parser, touching the same
// fields: the eight keys of an event and ten of its arguments, times and ids
// as numbers, the rest as slices. Both sum what they read, and the sums must
// agree.
//
// usage: json-parse TRACE.json [RUNS]
//
// Not part of the build: `ninja json-parse`. simdjson is compiled for the
// machine at hand; on-demand code does not dispatch at run time, and without
// that would be its `fallback` kernel.
//
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceEvent.h"
#include "Readers/KinetoTraceSplitter.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <simdjson.h>
#include <string>

using namespace culprit::kineto;

namespace {

struct Sums {
  uint64_t Events = 0, Text = 0;
  int64_t Ids = 0;
  double Time = 0;
};

} // namespace

static constexpr Field Numbers[] = {
    Field::Device,      Field::Stream,    Field::Correlation, Field::External,
    Field::Bytes,       Field::Registers, Field::MemoryBytes, Field::Allocated,
    Field::SharedBytes, Field::Reserved};

static Sums culpritSums(llvm::StringRef File) {
  Sums S;
  auto Parse = [&](Chunk C) {
    EventCursor Cursor(C.text());
    Event E;
    while (Cursor.next(E) == EventCursor::Step::Parsed) {
      ++S.Events;
      // Flow arrows and metadata: neither side looks further.
      llvm::StringRef Phase = E.text(Field::Phase);
      if (Phase != "X" && Phase != "i")
        continue;
      S.Text += E.text(Field::Name).size() + E.text(Field::Category).size();
      S.Time += double(scaledDecimal(E.text(Field::Ts), 3).value_or(0)) / 1e3;
      S.Time += double(scaledDecimal(E.text(Field::Dur), 3).value_or(0)) / 1e3;
      for (Field F : Numbers)
        S.Ids += E.number(F).value_or(0);
    }
  };
  Splitter Cutter;
  Cutter.feed(File, Parse);
  Cutter.finish(Parse);
  return S;
}

static Sums simdjsonSums(const simdjson::padded_string &File) {
  Sums S;
  simdjson::ondemand::parser Parser;
  simdjson::ondemand::document Document = Parser.iterate(File);
  for (simdjson::ondemand::object E : Document["traceEvents"].get_array()) {
    ++S.Events;
    char Phase = 0;
    uint64_t Text = 0;
    int64_t Ids = 0;
    double Time = 0;
    for (auto F : E) {
      simdjson::ondemand::raw_json_string Key = F.key();
      if (Key.unsafe_is_equal("ph")) {
        Phase = F.value().get_raw_json_string().value().raw()[0];
        if (Phase == 's' || Phase == 'f' || Phase == 't')
          break;
      } else if (Key.unsafe_is_equal("name") || Key.unsafe_is_equal("cat")) {
        std::string_view Token = F.value().raw_json_token();
        Text += Token.substr(1).find('"');
      } else if (Key.unsafe_is_equal("ts") || Key.unsafe_is_equal("dur")) {
        Time += F.value().get_double().value();
      } else if (Key.unsafe_is_equal("args")) {
        for (auto A : F.value().get_object()) {
          simdjson::ondemand::raw_json_string Arg = A.key();
          auto Is = [&](const auto &Name) { return Arg.unsafe_is_equal(Name); };
          if (Is("device") || Is("stream") || Is("correlation") ||
              Is("External id") || Is("bytes") || Is("registers per thread") ||
              Is("Bytes") || Is("Total Allocated") || Is("shared memory") ||
              Is("Total Reserved"))
            Ids += A.value().get_int64().value();
        }
      }
    }
    if (Phase != 'X' && Phase != 'i')
      continue;
    S.Text += Text;
    S.Ids += Ids;
    S.Time += Time;
  }
  return S;
}

template <typename Function>
static double best(int Runs, Sums &Out, Function Run) {
  double Best = 1e9;
  for (int I = 0; I != Runs; ++I) {
    auto Start = std::chrono::steady_clock::now();
    Out = Run();
    std::chrono::duration<double> Taken =
        std::chrono::steady_clock::now() - Start;
    Best = std::min(Best, Taken.count());
  }
  return Best;
}

int main(int ArgCount, char **Args) {
  simdjson::padded_string File;
  if (ArgCount < 2 || simdjson::padded_string::load(Args[1]).get(File)) {
    std::fputs("usage: json-parse TRACE.json [RUNS]\n", stderr);
    return 2;
  }
  int Runs = ArgCount > 2 ? std::atoi(Args[2]) : 3;
  Sums Ours, Theirs;
  double OurTime = best(Runs, Ours, [&] {
    return culpritSums({File.data(), File.size()});
  });
  double TheirTime = best(Runs, Theirs, [&] { return simdjsonSums(File); });
  double Bytes = double(File.size()) / 1e9;
  std::printf("culprit   %.3f s  %.2f GB/s\nsimdjson  %.3f s  %.2f GB/s  "
              "(kernel %s)\nshare     %.0f %%\n",
              OurTime, Bytes / OurTime, TheirTime, Bytes / TheirTime,
              simdjson::get_active_implementation()->name().c_str(),
              100 * TheirTime / OurTime);
  if (Ours.Events != Theirs.Events || Ours.Text != Theirs.Text ||
      Ours.Ids != Theirs.Ids) {
    std::fprintf(stderr, "sums differ: events %llu %llu, text %llu %llu, "
                         "ids %lld %lld\n",
                 (unsigned long long)Ours.Events,
                 (unsigned long long)Theirs.Events,
                 (unsigned long long)Ours.Text,
                 (unsigned long long)Theirs.Text, (long long)Ours.Ids,
                 (long long)Theirs.Ids);
    return 1;
  }
  return 0;
}
