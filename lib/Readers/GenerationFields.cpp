//===- GenerationFields.cpp -------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/GenerationFields.h"
#include "Readers/RequestTimes.h"

using namespace llvm;

namespace culprit {

// Of several names the first that is there counts. "answer" is last among
// the answers: beside another one it is what was expected.
static constexpr StringLiteral IdKeys[] = {
    "custom_id", "request_id", "id",          "rid", "trace_id",
    "doc_id",    "task_id",    "question_id", "idx"};
static constexpr StringLiteral PromptKeys[] = {
    "prompt", "question", "query", "problem", "instruction", "input", "inputs"};
static constexpr StringLiteral AnswerKeys[] = {
    "response",   "completion",   "generated_text", "generation", "output",
    "prediction", "model_output", "model_answer",   "output_text", "answer"};
static constexpr StringLiteral ExpectedKeys[] = {
    "expected", "expected_answer", "expected_output", "reference",
    "reference_answer", "target", "gold", "gold_answer", "ground_truth",
    "correct_answer", "label"};
static constexpr StringLiteral CorrectKeys[] = {
    "correct", "is_correct", "passed", "exact_match", "acc", "score"};
static constexpr StringLiteral RecordTimeKeys[] = {
    "timestamp",  "ts",           "time",       "at",
    "start_time", "arrival_time", "created_at", "created"};
/// Times that a record of request and answer has of its own.
static constexpr StringLiteral AskedTimeKeys[] = {
    "timestamp", "ts", "time", "at", "start_time", "arrival_time", "sent_at"};
static constexpr StringLiteral PromptTokenKeys[] = {
    "prompt_tokens", "input_tokens", "num_prompt_tokens", "prompt_len",
    "input_length", "input_len", "prompt_eval_count", "tokens_evaluated"};
static constexpr StringLiteral AnswerTokenKeys[] = {
    "completion_tokens", "output_tokens", "generated_tokens",
    "num_generated_tokens", "output_len", "eval_count", "tokens_predicted"};
static constexpr StringLiteral LimitKeys[] = {
    "max_tokens", "max_completion_tokens", "max_new_tokens",
    "max_output_tokens", "n_predict", "num_predict"};
static constexpr StringLiteral ParameterKeys[] = {
    "parameters", "sampling_params", "options", "generation_config",
    "gen_kwargs", "generation_settings"};

static GenerationParts responseParts(LooseValue Record, LooseValue Body) {
  GenerationParts Out;
  Out.Record = Record;
  Out.Response = Body;
  for (StringRef Key : {"choices", "outputs"})
    if (LooseValue V = Body[Key];
        !Out.Choices && V.isArray() && V.first().isObject())
      Out.Choices = V;
  return Out;
}

GenerationParts partsOf(LooseValue Record) {
  LooseValue Body = Record;
  for (StringRef Key : {"response", "output", "completion", "result"})
    if (LooseValue V = Record[Key]; V.isObject()) {
      Body = V;
      break;
    }
  // A batch, and a proxy that has headers beside the body.
  for (StringRef Key : {"body", "json"})
    if (LooseValue V = Body[Key]; V.isObject() && V["choices"])
      Body = V;
  GenerationParts Out = responseParts(Record, Body);
  static constexpr StringLiteral RequestKeys[] = {
      "request", "body", "payload", "params", "kwargs", "arguments"};
  Out.Request = Record;
  for (StringRef Key : RequestKeys)
    if (LooseValue V = Record[Key]; V.isObject() && !V["choices"]) {
      Out.Request = V;
      break;
    }
  for (StringRef Key : {"body", "json"})
    if (LooseValue V = Out.Request[Key]; V.isObject() && !V["choices"])
      Out.Request = V;
  return Out;
}

/// The text of a message: a string, or parts of which some are text.
static void appendText(LooseValue V, std::string &Out, unsigned Depth = 0) {
  if (Out.size() > RequestRows::MaxText || Depth > 8)
    return;
  if (V.isText()) {
    Out += V.text();
  } else if (V.isArray()) {
    for (LooseValue Part = V.first(); Part; Part = Part.next())
      appendText(Part, Out, Depth + 1);
  } else if (V.isObject()) {
    static constexpr StringLiteral Keys[] = {"text", "content", "value"};
    appendText(V.any(Keys), Out, Depth + 1);
  }
}

static bool isMessages(LooseValue V) {
  LooseValue First = V.first();
  return V.isArray() && First.isObject() && (First["role"] || First["from"]);
}

/// Messages joined as "role: text" lines. \p Answer, where it is given,
/// receives the last one instead if the assistant wrote it.
static std::string joinMessages(LooseValue Messages,
                                std::optional<std::string> *Answer) {
  static constexpr StringLiteral Roles[] = {"role", "from"};
  static constexpr StringLiteral Texts[] = {"content", "value"};
  std::string Out;
  for (LooseValue M = Messages.first(); M; M = M.next()) {
    StringRef Role = M.any(Roles).text();
    if (Answer && !M.next() && (Role == "assistant" || Role == "gpt")) {
      Answer->emplace();
      appendText(M.any(Texts), **Answer);
      break;
    }
    if (Out.size() > RequestRows::MaxText)
      break;
    if (!Out.empty())
      Out += '\n';
    Out += Role;
    Out += ": ";
    appendText(M.any(Texts), Out);
  }
  return Out;
}

static void findParameters(LooseValue From, RequestRecord &R) {
  if (!R.Temperature)
    R.Temperature = From["temperature"].number();
  if (!R.TopP)
    R.TopP = From["top_p"].number();
  if (!R.MaxTokens)
    R.MaxTokens = From.any(LimitKeys).integer();
  if (!R.Seed)
    R.Seed = From["seed"].integer();
}

static void findCounts(LooseValue From, RequestRecord &R) {
  if (!R.PromptTokens)
    R.PromptTokens = From.any(PromptTokenKeys).integer();
  if (!R.CompletionTokens)
    R.CompletionTokens = From.any(AnswerTokenKeys).integer();
}

static void setReason(LooseValue V, RequestRecord &R) {
  if (V.isObject()) // SGLang
    V = V["type"];
  if (!R.FinishReason.empty() || !V.isText())
    return;
  R.FinishReason = V.text().str();
  // llama.cpp has words of its own.
  if (V.key() == "stop_type")
    R.FinishReason = V.text() == "limit" ? "length" : "stop";
}

/// The body that llama.cpp's own /completion answers with.
static bool isLlamaCpp(LooseValue Body) {
  return Body["tokens_predicted"] && Body["content"];
}

static void findPrompt(const GenerationParts &P, RequestRecord &R,
                       std::optional<std::string> *Answer) {
  for (LooseValue From : {P.Request, P.Record}) {
    for (StringRef Key : {"messages", "conversations", "prompt", "inputs"})
      if (LooseValue V = From[Key]; isMessages(V)) {
        R.Prompt = joinMessages(V, Answer);
        return;
      }
    if (LooseValue V = From.any(PromptKeys)) {
      if (V.key() != "prompt" && isMessages(V)) {
        R.Prompt = joinMessages(V, Answer);
        return;
      }
      std::string Text;
      appendText(V, Text);
      // Alpaca's instruction has its input apart.
      if (V.key() == "instruction" && !From["input"].text().empty())
        (Text += '\n') += From["input"].text();
      if (!Text.empty() || V.isText()) {
        R.Prompt = std::move(Text);
        return;
      }
    }
  }
  // lm-evaluation-harness: gen_args_0.arg_0, or a list of lists.
  if (LooseValue Arguments = P.Record["arguments"]; P.Record["doc_id"])
    if (LooseValue Text = Arguments.first().first(); Text.isText()) {
      R.Prompt = Text.text().str();
      return;
    }
  // What SGLang is asked for, where the answer is apart.
  if (P.Request["text"].isText() && !P.Request["meta_info"])
    R.Prompt = P.Request["text"].text().str();
}

static void findError(const GenerationParts &P, RequestRecord &R) {
  static constexpr StringLiteral Keys[] = {"error", "exception", "err"};
  for (LooseValue From : {P.Record, P.Response}) {
    LooseValue V = From.any(Keys);
    if (V.isObject()) {
      static constexpr StringLiteral Texts[] = {"message", "msg", "code",
                                                "type"};
      if (!R.Status)
        R.Status = V["code"].integer();
      V = V.any(Texts);
    }
    if (R.Error.empty() && V.isText())
      R.Error = V.text().str();
  }
  // vLLM's own form: {"object": "error", "message": ..., "code": 400}
  if (P.Response["object"].text() == "error" && R.Error.empty()) {
    R.Error = P.Response["message"].text().str();
    if (!R.Status)
      R.Status = P.Response["code"].integer();
  }
}

static void findJudgement(LooseValue Record, LooseValue Answered,
                          RequestRecord &R) {
  LooseValue Expected = Record.any(ExpectedKeys);
  if (!Expected && Answered && Answered.key() != "answer")
    Expected = Record["answer"];
  if (Expected.isArray())
    Expected = Expected.first();
  if (!Expected.written().empty())
    R.Expected = Expected.written().str();
  LooseValue Correct = Record.any(CorrectKeys);
  R.Correct = Correct.boolean();
  // A score between is no judgement.
  if (std::optional<double> Score = Correct.number();
      Score && (*Score == 0 || *Score == 1))
    R.Correct = *Score == 1;
}

std::string idOf(const GenerationParts &P) {
  for (LooseValue From : {P.Record, P.Response, P.Response["meta_info"]})
    if (LooseValue V = From.any(IdKeys); !V.written().empty())
      return V.written().str();
  return "";
}

/// The answer of a record without choices; what it was taken from.
static LooseValue findAnswer(const GenerationParts &P, RequestRecord &R) {
  LooseValue Body = P.Response, Found;
  if (Body["meta_info"].isObject())
    Found = Body["text"];
  else if (isLlamaCpp(Body))
    Found = Body["content"];
  else if (Body["type"].text() == "message" && Body["role"])
    Found = Body["content"]; // Anthropic
  else if (Body["message"].isObject())
    Found = Body["message"]["content"]; // Ollama
  if (!Found)
    Found = Body.any(AnswerKeys);
  if (!Found)
    Found = P.Record.any(AnswerKeys);
  // lm-evaluation-harness has lists of lists.
  static constexpr StringLiteral Harness[] = {"filtered_resps", "resps"};
  if (!Found)
    Found = P.Record.any(Harness);
  if (!Found || Found.isObject())
    return {};
  std::string Text;
  appendText(Found, Text);
  if (Text.empty() && !Found.isText())
    return {};
  R.Response = std::move(Text);
  return Found;
}

RequestRecord requestOf(const GenerationParts &P) {
  RequestRecord R;
  R.Id = idOf(P);
  for (LooseValue From : {P.Response, P.Request, P.Record})
    if (R.Model.empty() && From["model"].isText())
      R.Model = From["model"].text().str();
  if (P.Response && P.Request["model"].isText())
    R.AskedModel = P.Request["model"].text().str();
  for (LooseValue From : {P.Response, P.Record})
    if (LooseValue Usage = From["usage"])
      findCounts(Usage, R);
  findCounts(P.Response["meta_info"], R);
  findCounts(P.Response["details"], R);
  findCounts(P.Response, R);
  findCounts(P.Record, R);
  findTimes(P.Record, R);
  for (StringRef Key : {"metrics", "timings", "timing", "meta_info"}) {
    findTimes(P.Record[Key], R);
    findTimes(P.Response[Key], R);
  }
  findTimes(P.Response, R);
  for (LooseValue From : {P.Record, P.Request, P.Response})
    if (!R.At)
      R.At = unixTimeOf(From.any(RecordTimeKeys));
  // Beside a time of who asked, the answer's own tells how old it is.
  static constexpr StringLiteral MadeKeys[] = {"created", "created_at"};
  LooseValue Made = P.Response.any(MadeKeys);
  if (Made && (P.Record.any(AskedTimeKeys) || P.Request.any(AskedTimeKeys)))
    R.Created = unixTimeOf(Made);
  static constexpr StringLiteral StatusKeys[] = {"status_code", "http_status",
                                                 "status"};
  for (LooseValue From : {P.Record, P.Record["response"]})
    if (!R.Status)
      R.Status = From.any(StatusKeys).integer();
  LooseValue Details = P.Response["details"];
  static constexpr StringLiteral Reasons[] = {"finish_reason", "stop_reason",
                                              "done_reason", "stop_type"};
  for (LooseValue From :
       {P.Response, Details, P.Response["meta_info"], P.Record})
    setReason(From.any(Reasons), R);
  for (LooseValue From : {P.Request, P.Record}) {
    findParameters(From, R);
    findParameters(From.any(ParameterKeys), R);
  }
  findParameters(P.Response.any(ParameterKeys), R); // llama.cpp repeats them
  // A sampler that is switched off takes the likeliest token.
  if (!R.Temperature && !R.TopP)
    for (LooseValue From : {P.Request, P.Record})
      for (LooseValue In : {From, From.any(ParameterKeys)})
        if (In["do_sample"].boolean() == false)
          R.Temperature = 0;
  if (!R.Seed)
    R.Seed = Details["seed"].integer();
  LooseValue Answered;
  if (!P.Choices)
    Answered = findAnswer(P, R);
  // Of data to train on, the last message is the answer.
  bool Last = !P.Choices && !R.Response;
  findPrompt(P, R, Last ? &R.Response : nullptr);
  findJudgement(P.Record, P.Choices ? P.Choices : Answered, R);
  findError(P, R);
  R.Attempt = P.Record["attempt"].integer();
  static constexpr StringLiteral RetryKeys[] = {"retry_count", "retries",
                                                "retry"};
  if (std::optional<int64_t> Retries = P.Record.any(RetryKeys).integer();
      Retries && *Retries >= 0 && *Retries < 1000000 && !R.Attempt)
    R.Attempt = *Retries + 1;
  static constexpr StringLiteral Urls[] = {"url", "endpoint", "path"};
  R.Endpoint = P.Record.any(Urls).text().str();
  // Two bodies that one endpoint alone answers with; it takes the prompt as it
  // is.
  if (R.Endpoint.empty() && isLlamaCpp(P.Response))
    R.Endpoint = "/completion";
  if (R.Endpoint.empty() && P.Response["meta_info"].isObject())
    R.Endpoint = "/generate";
  R.Method = P.Record["method"].text().str();
  // Many answers may wait for their end.
  for (std::optional<std::string> *Text : {&R.Prompt, &R.Response, &R.Expected})
    if (*Text)
      (*Text)->resize(RequestRows::capped(**Text).size());
  return R;
}

void addChoice(LooseValue Choice, RequestRecord &R) {
  LooseValue Text = Choice["text"];
  for (StringRef Key : {"message", "delta"})
    if (LooseValue Message = Choice[Key]; Message.isObject())
      Text = Message["content"];
  if (Text && !Text.isNull()) {
    if (!R.Response)
      R.Response.emplace();
    appendText(Text, *R.Response);
  }
  static constexpr StringLiteral Reasons[] = {"finish_reason", "stop_reason"};
  if (LooseValue V = Choice.any(Reasons); V && !V.isNull()) {
    R.FinishReason.clear();
    setReason(V, R);
  }
}

} // namespace culprit
