//===- ServingLines.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/ServingLines.h"
#include "Readers/AccessLine.h"
#include "Readers/ServingText.h"
#include "Readers/TimeStamp.h"
#include "Support/FindText.h"
#include "Support/LooseJson.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// A prefix is no longer than this.
static constexpr size_t ServingPrefixBytes = 200;

static bool takeDigits(StringRef &Text, unsigned Digits, int &Value) {
  if (Text.size() < Digits || !all_of(Text.take_front(Digits), isDigit))
    return false;
  Text.take_front(Digits).getAsInteger(10, Value);
  Text = Text.drop_front(Digits);
  return true;
}

/// 02-01 06:36:05 behind the level; false where there is none.
static bool stampWithoutYear(StringRef Text, int &Month, double &Seconds) {
  Text = Text.take_front(ServingPrefixBytes);
  for (StringRef Level : {"INFO ", "WARNING ", "ERROR ", "DEBUG "}) {
    size_t At = findText(Text, Level);
    if (At == StringRef::npos)
      continue;
    StringRef Rest = Text.drop_front(At + Level.size()).ltrim();
    int Day, Hour, Minute, Second;
    if (takeDigits(Rest, 2, Month) && Rest.consume_front("-") &&
        takeDigits(Rest, 2, Day) && Rest.consume_front(" ") &&
        takeDigits(Rest, 2, Hour) && Rest.consume_front(":") &&
        takeDigits(Rest, 2, Minute) && Rest.consume_front(":") &&
        takeDigits(Rest, 2, Second) && Month >= 1 && Month <= 12 && Day >= 1 &&
        Day <= 31) {
      Seconds = (daysIntoYear(Month, Day) * 24.0 + Hour) * 3600 +
                Minute * 60 + Second;
      // .123456 in the logs of some versions
      if (std::optional<double> Part = parseNumber(Rest.take_while(
              [](char C) { return isDigit(C) || C == '.'; }));
          Part && Rest.starts_with("."))
        Seconds += *Part;
      return true;
    }
  }
  return false;
}

std::optional<double> ServingLines::timeOf(const LogLine &L) {
  int Month;
  double Seconds;
  if (L.WallTime)
    return L.WallTime;
  if (!stampWithoutYear(L.Text, Month, Seconds))
    return std::nullopt;
  // From December to January a year passes.
  if (Months == 12 && Month == 1)
    YearStart += 365 * 86400.0;
  Months = Month;
  return YearStart + Seconds;
}

static size_t numCharacters(StringRef Text) {
  return count_if(Text, [](char C) { return (C & 0xC0) != 0x80; });
}

void ServingLines::flush() {
  for (const RequestRecord &R : Open)
    Rows.add(R);
  Open.clear();
  ById.clear();
}

void ServingLines::received(StringRef Text, const LogLine &L) {
  RequestRecord R;
  StringRef Id = idBefore(Text, ": ");
  if (!Id.empty() && containsText(Text, "SamplingParams(") && Rows.passOver(Id))
    return;
  R.Id = Id;
  R.Place = L.Number;
  R.Hop = "engine";
  R.At = timeOf(L);
  StringRef Rest = Text.drop_front(R.Id.size());
  size_t Params = findText(Rest, "SamplingParams(");
  if (Rest.take_front(Params).contains(" prompt: "))
    R.Prompt = quotedAfter(Rest, " prompt: ");
  StringRef Settings = Rest.drop_front(
      std::min(findText(Rest, "SamplingParams("), Rest.size()));
  R.Temperature = setting(Settings, "temperature");
  R.TopP = setting(Settings, "top_p");
  R.MaxTokens = integerSetting(Settings, "max_tokens");
  R.Seed = integerSetting(Settings, "seed");
  R.PromptTokens = countOf(Settings, "prompt_token_ids:");
  // --max-log-len cuts both lists to the same length.
  if (R.Prompt && R.PromptTokens && *R.PromptTokens > 0 &&
      numCharacters(*R.Prompt) == static_cast<size_t>(*R.PromptTokens))
    R.PromptTokens = std::nullopt;
  // Thousands wait for their end.
  if (R.Prompt)
    R.Prompt->resize(RequestRows::capped(*R.Prompt).size());
  if (R.Id.empty() || (!R.Prompt && Settings.empty()))
    return; // a sentence about requests
  if (Open.size() >= MaxOpen)
    flush();
  auto [It, New] = ById.try_emplace(R.Id, Open.size());
  if (New)
    Open.push_back(std::move(R));
}

void ServingLines::generated(StringRef Text, const LogLine &L) {
  StringRef Id = idBefore(Text, ": ");
  auto It = ById.find(Id);
  bool Delta =
      Text.take_front(ServingPrefixBytes).contains("(streaming delta)");
  if (It == ById.end()) {
    if (!Text.contains("finish_reason: ") || Open.size() >= MaxOpen)
      return;
    RequestRecord R;
    R.Id = Id;
    R.Place = L.Number;
    R.Hop = "engine";
    It = ById.try_emplace(Id, Open.size()).first;
    Open.push_back(std::move(R));
  }
  RequestRecord &R = Open[It->second];
  StringRef Rest = Text;
  std::optional<std::string> Output = quotedAfter(Rest, " output: ");
  if (Output && !(Delta && R.Response))
    R.Response = std::move(Output);
  else if (Output && R.Response->size() < RequestRows::MaxText)
    *R.Response += *Output;
  const size_t Characters =
      R.Response && !Delta ? numCharacters(*R.Response) : 0;
  if (R.Response)
    R.Response->resize(RequestRows::capped(*R.Response).size());
  if (std::optional<int64_t> Count = countOf(Rest, "output_token_ids:")) {
    bool Cut = R.Response && !Delta && *Count > 0 &&
               Characters == static_cast<size_t>(*Count);
    if (Delta)
      R.CompletionTokens = R.CompletionTokens.value_or(0) + *Count;
    else if (!Cut)
      R.CompletionTokens = Count;
  }
  if (size_t At = Rest.find("finish_reason: "); At != StringRef::npos) {
    StringRef Reason = Rest.drop_front(At + 15).rtrim(". ");
    if (!Reason.empty() && Reason != "None" && Reason != "streaming_complete")
      R.FinishReason = Reason.take_front(40);
  }
  std::optional<double> Now = timeOf(L);
  if (!Delta && R.At && Now && *Now >= *R.At)
    R.Latency = *Now - *R.At;
}

void ServingLines::ended(StringRef Text, const LogLine &L, bool Aborted) {
  auto It = ById.find(idBefore(Text, " :,"));
  if (It == ById.end())
    return;
  RequestRecord &R = Open[It->second];
  std::optional<double> Now = timeOf(L);
  if (R.At && Now && *Now >= *R.At)
    R.Latency = *Now - *R.At;
  if (Aborted)
    R.FinishReason = "abort";
}

void ServingLines::sample(StringRef Name, double Value,
                          std::optional<double> At,
                          std::optional<int64_t> Engine, int64_t Line) {
  TableBuilder &Row = S.table(TableId::counters);
  Row.addRow();
  Row.set(counters::name, Name);
  if (At) {
    if (!FirstSample)
      FirstSample = At;
    bool Year = *At > 1e8;
    int64_t Ns = std::llround(*At * 1e6) * 1000;
    // Without a year the log has a time of its own.
    if (Year && !S.EpochNs)
      S.EpochNs = Ns;
    int64_t Base =
        Year ? *S.EpochNs : std::llround(*FirstSample * 1e6) * 1000;
    Row.set(counters::at, Ns - Base);
  }
  Row.set(counters::value, Value);
  if (Engine)
    Row.set(counters::rank, *Engine);
  Row.set(counters::place, Line);
}

void ServingLines::engine(StringRef Text, const LogLine &L) {
  struct Part {
    StringLiteral Words, Name;
  };
  static constexpr Part Parts[] = {
      {"Avg prompt throughput", "prompt_tokens_per_second"},
      {"Avg generation throughput", "generation_tokens_per_second"},
      {"Running", "requests_running"},
      {"Swapped", "requests_swapped"},
      {"Pending", "requests_waiting"},
      {"Waiting", "requests_waiting"},
      {"Preemptions", "preemptions"},
      {"GPU KV cache usage", "kv_cache_util"},
      {"CPU KV cache usage", "kv_cache_cpu_util"},
      {"Prefix cache hit rate", "prefix_cache_hit_util"}};
  std::optional<int64_t> Engine;
  std::optional<double> At = timeOf(L);
  StringRef Before = L.Text.take_front(Text.begin() - L.Text.begin());
  if (size_t Word = Before.rfind("Engine "); Word != StringRef::npos) {
    int64_t Number;
    if (!Before.drop_front(Word + 7).take_while(isDigit).getAsInteger(10,
                                                                      Number))
      Engine = Number;
  }
  SmallVector<StringRef, 12> Cells;
  Text.split(Cells, ',');
  for (StringRef Cell : Cells) {
    auto [Words, Value] = Cell.trim().split(": ");
    for (const Part &P : Parts)
      if (Words == P.Words)
        if (std::optional<double> Number = parseNumber(Value.take_while(
                [](char C) { return isDigit(C) || C == '.'; }));
            Number && std::isfinite(*Number))
          sample(P.Name, *Number, At, Engine, L.Number);
  }
}

void ServingLines::textGeneration(StringRef Text, const LogLine &L) {
  auto Duration = [&](StringRef Key) -> std::optional<double> {
    size_t At = findText(Text, Key);
    if (At == StringRef::npos)
      return std::nullopt;
    return parseDuration(Text.drop_front(At + Key.size()).split('"').first);
  };
  RequestRecord R;
  R.Latency = Duration("total_time=\"");
  if (!R.Latency)
    return;
  // The innermost span is what was asked for: generate{...}.
  StringRef Spans = Text.take_front(Text.find("total_time=\""));
  Spans = Spans.take_front(Spans.find('{'));
  R.Endpoint = Spans.take_back(
      Spans.size() - (Spans.find_last_of(" :") == StringRef::npos
                          ? 0
                          : Spans.find_last_of(" :") + 1));
  R.Place = L.Number;
  R.Hop = "server";
  if (L.WallTime)
    R.At = *L.WallTime - *R.Latency; // logged at the end
  R.Temperature = setting(Text, "temperature");
  R.TopP = setting(Text, "top_p");
  if (!R.Temperature && !R.TopP && containsText(Text, " do_sample: false"))
    R.Temperature = 0; // the likeliest token each time
  R.MaxTokens = integerSetting(Text, "max_new_tokens");
  R.Seed = integerSetting(Text, "seed");
  // The one is the other divided by the number of tokens.
  std::optional<double> All = Duration("inference_time=\""),
                        One = Duration("time_per_token=\"");
  if (All && One && *One > 0) {
    double Count = *All / *One;
    if (std::fabs(Count - std::round(Count)) < 0.01 * std::sqrt(Count) + 1e-3)
      R.CompletionTokens = std::llround(Count);
  }
  if (L.Level == "error")
    R.Error = L.Body.rsplit(": ").second;
  else
    R.Status = 200;
  Rows.add(R);
}

void ServingLines::access(const LogLine &L) {
  std::optional<AccessLine> A = parseAccessLine(L.Text);
  if (!A)
    return;
  if (A->Status < 400 && Rows.passOver(A->Id))
    return;
  setRequest(*A, A->At ? A->At : timeOf(L), L.Number, AccessRecord);
  Rows.add(AccessRecord);
}

namespace {
/// Words that tell a part by standing in the head of a line with a level.
struct HeadWords {
  ServingLines::Part Is;
  StringLiteral Words;
};
} // namespace

static constexpr HeadWords Heads[] = {
    {ServingLines::Part::Received, "Received request "},
    {ServingLines::Part::Generated, "Generated response "},
    {ServingLines::Part::Finished, "Finished request "},
    {ServingLines::Part::Aborted, "Aborted request "},
    {ServingLines::Part::Engine, "Avg prompt throughput: "}};

ServingLines::Part ServingLines::partOf(const LogLine &L) {
  // Nearly no line of a training log is looked at twice.
  if (L.Text.contains('"')) {
    if (containsText(L.Text, " total_time=\"") ||
        containsText(L.Text, "{total_time=\""))
      return Part::TextGeneration;
    if (containsText(L.Text, " HTTP/") || containsText(L.Text, "[GIN] "))
      return Part::Access;
  }
  if (L.Level.empty())
    return Part::None;
  StringRef Head = L.Text.take_front(ServingPrefixBytes);
  for (const HeadWords &H : Heads)
    if (size_t At = findText(Head, H.Words);
        At != StringRef::npos && At + H.Words.size() < L.Text.size())
      return H.Is;
  return Part::None;
}

void ServingLines::line(const LogLine &L, Part Is) {
  StringRef Rest;
  for (const HeadWords &H : Heads)
    if (H.Is == Is) {
      size_t At = findText(L.Text, H.Words);
      if (At == StringRef::npos)
        return;
      // What the engine says of itself begins with the words.
      Rest = L.Text.drop_front(Is == Part::Engine ? At : At + H.Words.size());
    }
  switch (Is) {
  case Part::None:
    return;
  case Part::Access:
    return access(L);
  case Part::TextGeneration:
    return textGeneration(L.Text, L);
  case Part::Received:
    return received(Rest, L);
  case Part::Generated:
    return generated(Rest, L);
  case Part::Finished:
    return ended(Rest, L, false);
  case Part::Aborted:
    return ended(Rest, L, true);
  case Part::Engine:
    return engine(Rest, L);
  }
}

} // namespace culprit
