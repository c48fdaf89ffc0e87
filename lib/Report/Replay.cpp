//===- Replay.cpp -----------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Report/Replay.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace llvm;

namespace culprit {

/// Prompts are recorded up to here.
static constexpr size_t MaxPrompt = 64 << 10;

namespace {
/// A row of `requests` by column.
struct Request {
  const Table &T;
  size_t Row;

  Cell cell(size_t Column) const { return T.cell(Row, T.columns()[Column]); }
  StringRef text(size_t Column) const { return cell(Column).String; }
  std::optional<int64_t> integer(size_t Column) const {
    Cell Value = cell(Column);
    if (Value.Null)
      return std::nullopt;
    return Value.Int;
  }
  bool failed() const {
    std::optional<int64_t> Status = integer(requests::status);
    return Status ? *Status >= 500 || *Status == 408
                  : !text(requests::error).empty();
  }
  bool wrong() const { return integer(requests::correct) == 0; }
  double latency() const {
    double Seconds = cell(requests::latency).number();
    return std::isfinite(Seconds) ? Seconds : -1;
  }
};
} // namespace

/// The row to replay; none where no prompt is on record.
static std::optional<size_t> choose(const Table &T, StringRef Id) {
  std::optional<size_t> Wrong, Slowest;
  for (size_t I = 0; I != T.rows(); ++I) {
    Request R{T, I};
    if (R.text(requests::prompt).empty())
      continue;
    if (!Id.empty()) {
      if (R.text(requests::id) == Id)
        return I;
      continue;
    }
    if (R.failed())
      return I;
    if (!Wrong && R.wrong())
      Wrong = I;
    if (!Slowest || R.latency() > Request{T, *Slowest}.latency())
      Slowest = I;
  }
  return Wrong ? Wrong : Slowest;
}

/// The turns of a prompt of lines `role: text`; empty for a plain text.
static json::Array turnsOf(StringRef Prompt) {
  json::Array Turns;
  std::string Role, Text;
  auto Close = [&] {
    if (!Role.empty())
      Turns.push_back(
          json::Object{{"role", Role}, {"content", json::fixUTF8(Text)}});
  };
  SmallVector<StringRef, 16> Lines;
  Prompt.split(Lines, '\n');
  for (StringRef Line : Lines) {
    StringRef Begin = Line.split(": ").first.rtrim(':');
    if (Line.size() > Begin.size() &&
        is_contained({"system", "user", "assistant", "tool", "developer"},
                     Begin)) {
      Close();
      Role = Begin.str();
      Text = Line.drop_front(Begin.size() + 1).ltrim(' ').str();
    } else if (Role.empty()) {
      return {};
    } else {
      Text += "\n" + Line.str();
    }
  }
  Close();
  return Turns;
}

/// Ids of the prompt's tokens in order; empty where one is missing.
static json::Array promptIds(const Case &C, StringRef Id) {
  const Table &T = C.table(TableId::tokens);
  json::Array Ids;
  if (Id.empty())
    return Ids;
  for (size_t I = 0; I != T.rows(); ++I) {
    auto Of = [&](size_t Column) { return T.cell(I, T.columns()[Column]); };
    if (Of(tokens::request).String != Id || Of(tokens::part).String != "prompt")
      continue;
    if (Of(tokens::id).Null ||
        Of(tokens::position).Int != static_cast<int64_t>(Ids.size()))
      return {};
    Ids.push_back(Of(tokens::id).Int);
  }
  return Ids;
}

/// \p Text as one word of a shell.
static std::string quoted(StringRef Text) {
  std::string Out = "'";
  for (char Char : Text)
    Out += Char == '\'' ? std::string("'\\''") : std::string(1, Char);
  return Out + "'";
}

/// \p Text for a comment: one line of what a terminal can show.
static std::string oneLine(StringRef Text) {
  std::string Out;
  for (char Char : json::fixUTF8(Text.take_front(200)))
    Out += static_cast<unsigned char>(Char) < 0x20 || Char == 0x7F ? ' ' : Char;
  return Out;
}

/// gpt-4o, o3-mini: models that OpenAI alone serves. Of these \p Reasons are
/// those that take no temperature and count what they think as well.
static bool isOpenAiModel(StringRef Model, bool &Reasons) {
  const bool Series = Model.size() > 1 && Model[0] == 'o' && isDigit(Model[1]);
  Reasons = Series || Model.starts_with("gpt-5");
  return Series || Model.starts_with("chatgpt-") ||
         (Model.consume_front("gpt-") && !Model.empty() && isDigit(Model[0]));
}

Expected<std::string> replayCommand(const Case &C, StringRef Id) {
  const Table &T = C.table(TableId::requests);
  std::optional<size_t> Row = choose(T, Id);
  if (!Row)
    return failure(Id.empty() ? Twine("no request whose prompt is on record")
                              : "no request '" + Id +
                                    "' whose prompt is on record",
                   "give the client's record, or the server's log with "
                   "prompts (vLLM: --enable-log-requests)");
  Request R{T, *Row};
  StringRef Prompt = R.text(requests::prompt);
  StringRef Endpoint = R.text(requests::endpoint);
  json::Array Turns = turnsOf(Prompt);
  json::Array Ids = promptIds(C, R.text(requests::id));
  bool Reasons = false;
  const bool OpenAi = isOpenAiModel(R.text(requests::model), Reasons);
  bool Chat = Endpoint.contains("chat") ||
              ((!Turns.empty() || OpenAi) && !Endpoint.contains("completions"));

  json::Object Body;
  if (StringRef Model = R.text(requests::model); !Model.empty())
    Body["model"] = json::fixUTF8(Model);
  if (Chat && Turns.empty())
    Turns.push_back(
        json::Object{{"role", "user"}, {"content", json::fixUTF8(Prompt)}});
  if (Chat)
    Body["messages"] = std::move(Turns);
  else if (!Ids.empty())
    Body["prompt"] = std::move(Ids);
  else
    Body["prompt"] = json::fixUTF8(Prompt);
  std::optional<int64_t> Most = R.integer(requests::max_tokens);
  if (!Most)
    Most = R.integer(requests::completion_tokens);
  Body[Reasons ? "max_completion_tokens" : "max_tokens"] =
      Most && *Most > 0 ? *Most : 256;
  if (!Reasons)
    Body["temperature"] = 0;
  Body["seed"] = R.integer(requests::seed).value_or(0);

  const std::string Host =
      OpenAi ? "https://api.openai.com" : "http://localhost:8000";
  std::string Url = Endpoint.starts_with("http") ? Endpoint.str()
                    : Endpoint.starts_with("/")
                        ? Host + Endpoint.str()
                        : Host + "/v1/" +
                              (Chat ? "chat/completions" : "completions");
  const bool Remote = StringRef(Url).starts_with("https://");
  std::string What = R.text(requests::id).empty()
                         ? formatv("request {0}", *Row).str()
                         : oneLine(R.text(requests::id));
  std::string Out = "# " + What + ":";
  if (std::optional<int64_t> Status = R.integer(requests::status))
    Out += formatv(" status {0}", *Status);
  if (R.latency() >= 0)
    Out += formatv(" {0:F1} s", R.latency());
  if (R.wrong())
    Out += " wrong answer";
  if (StringRef Error = R.text(requests::error); !Error.empty())
    Out += " " + oneLine(Error);
  if (Prompt.size() >= MaxPrompt)
    Out += "\n# the prompt is cut: no more than 64 KiB of it are on record";
  if (!Endpoint.starts_with("http"))
    Out += "\n# the server's address is not on record: " + Host +
           " is a guess";
  Out += "\ncurl -sS " + quoted(Url);
  // The key stays out of what is pasted into a ticket.
  if (Remote)
    Out += " \\\n  -H \"Authorization: Bearer $OPENAI_API_KEY\"";
  Out += " \\\n  -H 'Content-Type: application/json' -d " +
         quoted(formatv("{0}", json::Value(std::move(Body))).str()) + "\n";
  return Out;
}

} // namespace culprit
