//===- ObserveRequests.cpp - Prompts, answers and token ids -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// A greedy answer, or one with a seed, is the same each time: it is held to
// the byte. One that was sampled is held by what is stable over many: lengths,
// log probabilities, reasons to stop. Requests have the ids of their service,
// which are new each time (chatcmpl-9f3c...), so they are known by their
// prompt, unless all ids of a file are of the kind that people give.
//
//===----------------------------------------------------------------------===//

#include "Golden/Observe.h"
#include "Support/Text.h"
#include "Support/Units.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Samples and shares of fewer say too little.
static constexpr size_t LeastSampled = 8;

namespace {

enum class Decoding { Greedy, Seeded, Sampled, Unknown };

/// The requests of one file.
struct File {
  std::string Name;
  std::vector<size_t> Rows;
  bool OwnIds = false; ///< Given by people.
  std::map<size_t, std::string> Keys; ///< By row.
};

class RequestItems {
public:
  RequestItems(const Case &C, const InputNames &Names,
               const GoldenOptions &Options, GoldenRun &Run)
      : C(C), T(C.table(TableId::requests)), Tokens(C.table(TableId::tokens)),
        Names(Names), Options(Options), Run(Run) {}

  void add();

private:
  std::string text(size_t Row, unsigned Column) const {
    const ColumnView &V = T.columns()[Column];
    if (V.isNull(Row))
      return "";
    StringRef Raw = C.pool()->text(V.getString(Row));
    return json::isUTF8(Raw) ? Raw.str() : json::fixUTF8(Raw);
  }
  bool has(size_t Row, unsigned Column) const {
    return !T.columns()[Column].isNull(Row);
  }
  double number(size_t Row, unsigned Column) const {
    return T.columns()[Column].number(Row);
  }
  bool failed(size_t Row) const {
    return has(Row, requests::error) ||
           (has(Row, requests::status) && number(Row, requests::status) >= 400);
  }
  Decoding decoding(size_t Row) const;
  void findTokens();
  void nameRequests(File &F) const;
  void addRequest(const File &F, size_t Row, Decoding How);
  void addTokens(const File &F, size_t Row, bool Prompt);
  void addSampled(const File &F, ArrayRef<size_t> Sampled);
  void addCounts(const File &F);

  const Case &C;
  const Table &T, &Tokens;
  const InputNames &Names;
  const GoldenOptions &Options;
  GoldenRun &Run;
  std::optional<bool> Samples; ///< What the generation settings say.
  /// Rows of tokens by file, request and part, in order.
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> Answers,
      Prompts;
  /// Tokens of each prompt of the file at hand, and where it is.
  std::vector<std::pair<std::string, std::string>> Counts;
  std::map<std::string, std::string> CountPlaces;
};

} // namespace

Decoding RequestItems::decoding(size_t Row) const {
  if (has(Row, requests::temperature) &&
      number(Row, requests::temperature) == 0)
    return Decoding::Greedy;
  if (has(Row, requests::seed))
    return Decoding::Seeded;
  if (has(Row, requests::temperature))
    return Decoding::Sampled;
  if (Samples)
    return *Samples ? Decoding::Sampled : Decoding::Greedy;
  return Options.Greedy ? Decoding::Greedy : Decoding::Unknown;
}

/// Whether \p Id has a part that a machine drew: eight or more letters and
/// digits with three changes between them.
static bool looksDrawn(StringRef Id) {
  unsigned Size = 0, Changes = 0;
  bool Digit = false;
  for (char C : Id) {
    if (!isAlnum(C)) {
      Size = Changes = 0;
      continue;
    }
    Changes += Size != 0 && isDigit(C) != Digit;
    Digit = isDigit(C);
    if (++Size >= 8 && Changes >= 3)
      return true;
  }
  return false;
}

void RequestItems::nameRequests(File &F) const {
  std::map<std::string, unsigned> Ids;
  F.OwnIds = all_of(F.Rows, [&](size_t Row) {
    const std::string Id = text(Row, requests::id);
    return !Id.empty() && !StringRef(Id).contains('#') && !looksDrawn(Id) &&
           ++Ids[Id] == 1;
  });
  // Of several requests with one prompt the order in the file may be another
  // in the next run, while seeds are the same.
  std::vector<size_t> Rows = F.Rows;
  const auto Seed = [&](size_t Row) {
    return has(Row, requests::seed) ? number(Row, requests::seed) : HUGE_VAL;
  };
  llvm::stable_sort(Rows,
                    [&](size_t A, size_t B) { return Seed(A) < Seed(B); });
  std::map<std::string, unsigned> Times;
  for (size_t Row : Rows) {
    std::string Key;
    if (F.OwnIds) {
      Key = text(Row, requests::id);
    } else if (has(Row, requests::prompt)) {
      const std::string Prompt = text(Row, requests::prompt);
      StringRef Last = StringRef(Prompt).rtrim();
      // Of a conversation the last turn is what differs.
      Last = Last.substr(Last.rfind('\n') + 1);
      Key = slugOf(Last.contains(": ") ? Last.split(": ").second : Last, 32) +
            "-" + goldenHash(Prompt).substr(5, 6);
    } else {
      Key = "request";
    }
    if (const unsigned Before = Times[Key]++)
      Key += "#" + std::to_string(Before + 1);
    F.Keys[Row] = Key;
  }
}

void RequestItems::findTokens() {
  const ColumnView &Part = Tokens.columns()[tokens::part];
  const ColumnView &Request = Tokens.columns()[tokens::request];
  const ColumnView &Id = Tokens.columns()[tokens::id];
  const ColumnView &Text = Tokens.columns()[tokens::text];
  std::string Path, Name;
  for (size_t I = 0; I != Tokens.rows(); ++I) {
    if (const std::string Own = C.cite(TableId::tokens, I).Path; Own != Path) {
      Path = Own;
      Name = Names.of(Path);
    }
    const bool OfPrompt =
        !Part.isNull(I) && C.pool()->text(Part.getString(I)) == "prompt";
    StringRef Of =
        Request.isNull(I) ? "" : C.pool()->text(Request.getString(I));
    (OfPrompt ? Prompts : Answers)[{Name, Of.str()}].push_back(I);
    if (!Id.isNull(I) && !Text.isNull(I))
      Run.Pieces.insert(
          {Id.getInt(I), C.pool()->text(Text.getString(I)).str()});
  }
}

void RequestItems::addTokens(const File &F, size_t Row, bool Prompt) {
  auto &All = Prompt ? Prompts : Answers;
  auto It = All.find({F.Name, text(Row, requests::id)});
  if (It == All.end())
    return;
  const ColumnView &Id = Tokens.columns()[tokens::id];
  std::vector<int64_t> Ids;
  for (size_t I : It->second) {
    if (Id.isNull(I))
      return;
    Ids.push_back(Id.getInt(I));
  }
  Observation O = idsItem((Prompt ? "prompt-ids/" : "answer-ids/") + F.Name +
                              "/" + F.Keys.at(Row),
                          std::move(Ids));
  O.Where = Names.place(TableId::requests, Row);
  O.Item.Why = Prompt ? "a tokenizer and a template have no chance in them"
                      : "as the answer";
  Run.Items.push_back(std::move(O));
}

void RequestItems::addRequest(const File &F, size_t Row, Decoding How) {
  const std::string Where = Names.place(TableId::requests, Row);
  const std::string Key = F.Name + "/" + F.Keys.at(Row);
  const std::string Prompt = text(Row, requests::prompt);
  // Known by its own text a prompt cannot differ from it.
  if (F.OwnIds && !Prompt.empty()) {
    Observation O;
    O.Item.Id = "prompts/" + Key;
    O.Item.Kind = GoldenKind::Exact;
    O.Item.Of = GoldenSubject::Prompt;
    O.Where = Where;
    O.Text = Prompt;
    O.Item.set("hash", goldenHash(Prompt));
    O.Item.set("bytes", int64_t(Prompt.size()));
    O.Item.set("text", wholeCharacters(Prompt, MaxHeldText));
    if (has(Row, requests::prompt_tokens))
      O.Item.set("tokens", int64_t(number(Row, requests::prompt_tokens)));
    O.Item.Why = "the same request sends the same prompt, and a tokenizer and "
                 "a template have no chance in them";
    Run.Items.push_back(std::move(O));
  } else if (!Prompt.empty() && has(Row, requests::prompt_tokens)) {
    Counts.push_back({F.Keys.at(Row), std::to_string(int64_t(number(
                                          Row, requests::prompt_tokens)))});
    CountPlaces[F.Keys.at(Row)] = Where;
  }
  addTokens(F, Row, /*Prompt=*/true);
  if (failed(Row) || !has(Row, requests::response) ||
      (How != Decoding::Greedy && How != Decoding::Seeded))
    return;
  const std::string Answer = text(Row, requests::response);
  Observation O;
  O.Item.Id = "answers/" + Key;
  O.Item.Kind = GoldenKind::Exact;
  O.Item.Of = GoldenSubject::Answer;
  O.Where = Where;
  O.Text = Answer;
  if (!Prompt.empty())
    O.Item.set("prompt", wholeCharacters(Prompt, 200));
  O.Item.set("hash", goldenHash(Answer));
  O.Item.set("bytes", int64_t(Answer.size()));
  O.Item.set("text", wholeCharacters(Answer, MaxHeldText));
  if (has(Row, requests::finish_reason))
    O.Item.set("finish", text(Row, requests::finish_reason));
  O.Item.Why =
      How == Decoding::Seeded ? "sampled with a seed: the same each time"
      : has(Row, requests::temperature)
          ? "temperature 0: the same each time"
      : Samples ? "the generation settings do not sample: the same each time"
                : "taken as greedy by --greedy: the same each time";
  Run.Items.push_back(std::move(O));
  addTokens(F, Row, /*Prompt=*/false);
}

void RequestItems::addSampled(const File &F, ArrayRef<size_t> Sampled) {
  std::vector<double> Lengths, Logprobs;
  std::map<std::string, double> Reasons;
  double Ended = 0;
  const bool ByTokens = 2 * count_if(Sampled, [&](size_t Row) {
    return has(Row, requests::completion_tokens);
  }) > ptrdiff_t(Sampled.size());
  for (size_t Row : Sampled) {
    if (ByTokens && has(Row, requests::completion_tokens))
      Lengths.push_back(number(Row, requests::completion_tokens));
    else if (!ByTokens && has(Row, requests::response))
      Lengths.push_back(double(text(Row, requests::response).size()));
    if (has(Row, requests::finish_reason)) {
      ++Reasons[text(Row, requests::finish_reason)];
      ++Ended;
    }
  }
  // Numerics show in log probabilities of greedy answers as well.
  for (size_t Row : F.Rows) {
    auto It = Answers.find({F.Name, text(Row, requests::id)});
    if (It == Answers.end() || failed(Row))
      continue;
    const ColumnView &Logprob = Tokens.columns()[tokens::logprob];
    double Sum = 0, Count = 0;
    for (size_t I : It->second)
      if (const double V = Logprob.number(I); std::isfinite(V) && V > -9000) {
        Sum += V;
        ++Count;
      }
    if (Count > 0)
      Logprobs.push_back(Sum / Count);
  }
  const auto Add = [&](std::optional<Observation> O) {
    if (!O)
      return;
    O->Where = F.Name;
    Run.Items.push_back(std::move(*O));
  };
  Add(sampleItem("samples/" + F.Name + "/answer-length", std::move(Lengths),
                 ByTokens ? "tokens" : "bytes", LeastSampled, /*Atol=*/0));
  Add(sampleItem("samples/" + F.Name + "/answer-logprob", std::move(Logprobs),
                 "nats, mean of an answer", LeastSampled,
                 /*Atol=*/0.01)); // other kernels do as much
  if (Ended >= double(LeastSampled)) {
    Observation O;
    O.Item.Id = "samples/" + F.Name + "/finish-reason";
    O.Item.Kind = GoldenKind::Statistical;
    O.Item.Of = GoldenSubject::Shares;
    O.Where = F.Name;
    O.Item.set("count", int64_t(Ended));
    std::vector<std::pair<std::string, std::string>> Shares;
    for (const auto &[Reason, Count] : Reasons)
      Shares.push_back({Reason, formatNumber(Count / Ended, 6)});
    O.Item.set("shares", std::move(Shares));
    O.Item.Tolerance = {{"k", 4}};
    O.Item.Why = "varies by chance: each share within 4 standard errors";
    Run.Items.push_back(std::move(O));
  }
}

void RequestItems::addCounts(const File &F) {
  if (Counts.empty())
    return;
  Observation O;
  O.Item.Id = "prompt-tokens/" + F.Name;
  O.Item.Kind = GoldenKind::Exact;
  O.Item.Of = GoldenSubject::Counts;
  O.Where = F.Name;
  O.Places = std::exchange(CountPlaces, {});
  llvm::sort(Counts);
  O.Item.set("fields", std::exchange(Counts, {}));
  O.Item.Why = "a tokenizer and a template have no chance in them; prompts "
               "that a run does not send are not asked for";
  Run.Items.push_back(std::move(O));
}

void RequestItems::add() {
  const Table &Config = C.table(TableId::config);
  for (size_t I = 0; I != Config.rows(); ++I) {
    const std::string Key =
        Config.cell(I, Config.columns()[config::key]).text();
    const std::string Value =
        Config.cell(I, Config.columns()[config::value]).text();
    if (Key == "generation.do_sample")
      Samples = StringRef(Value).equals_insensitive("true");
  }
  findTokens();
  std::map<std::string, File> Files;
  for (size_t Row = 0; Row != T.rows(); ++Row) {
    const std::string Name = Names.of(TableId::requests, Row);
    File &F = Files[Name];
    F.Name = Name;
    F.Rows.push_back(Row);
  }
  for (auto &[Name, F] : Files) {
    nameRequests(F);
    std::vector<size_t> Sampled;
    size_t Unknown = 0, Held = 0;
    for (size_t Row : F.Rows) {
      const Decoding How = decoding(Row);
      const std::string Key = F.Name + "/" + F.Keys.at(Row);
      if (Held++ < Options.MostRequests ||
          Options.Wanted.contains("answers/" + Key) ||
          Options.Wanted.contains("prompts/" + Key))
        addRequest(F, Row, How);
      if (failed(Row) || !(has(Row, requests::response) ||
                           has(Row, requests::completion_tokens)))
        continue;
      if (How == Decoding::Sampled || How == Decoding::Unknown)
        Sampled.push_back(Row);
      Unknown += How == Decoding::Unknown && has(Row, requests::response);
    }
    if (Held > Options.MostRequests &&
        has(F.Rows.front(), requests::prompt))
      Run.Notes.push_back(Name + ": of " + formatCount(int64_t(Held)) +
                          " requests the first " +
                          formatCount(int64_t(Options.MostRequests)) +
                          " are held one by one, all others by figures alone");
    if (Unknown)
      Run.Notes.push_back(
          Name + ": " + formatCount(int64_t(Unknown)) +
          " answers do not tell their temperature and are held as samples, "
          "not word by word; if they are greedy, give --greedy");
    if (!Sampled.empty() && Sampled.size() < LeastSampled)
      Run.Notes.push_back(Name + ": " + formatCount(int64_t(Sampled.size())) +
                          " sampled answers are too few to hold; record " +
                          formatCount(int64_t(LeastSampled)) +
                          " or more, or with temperature 0 or a seed");
    addSampled(F, Sampled);
    addCounts(F);
  }
}

void observeRequests(const Case &C, const InputNames &Names,
                     const GoldenOptions &Options, GoldenRun &Run) {
  if (C.has(TableId::requests))
    RequestItems(C, Names, Options, Run).add();
}

} // namespace culprit
