//===- LaunchScript.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/LaunchScript.h"
#include "Readers/ConfigRows.h"
#include "Readers/TextLines.h"
#include "Support/Error.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// A script is short; what is longer is something else.
static constexpr size_t MaxLinesOfScript = 5000;

namespace {
/// A command with its continued lines joined, in words of the shell.
struct Command {
  std::vector<std::string> Words;
  int64_t Line = 0;
};
} // namespace

/// Splits \p Text into words as a shell would; a comment ends it, and so does
/// what hands it on (|, ;, &, >).
static std::vector<std::string> shellWords(StringRef Text) {
  std::vector<std::string> Out;
  std::string Word;
  bool Open = false;
  char Quote = 0;
  const auto Close = [&] {
    if (Open)
      Out.push_back(std::move(Word));
    Word.clear();
    Open = false;
  };
  for (size_t I = 0; I != Text.size(); ++I) {
    const char C = Text[I];
    if (Quote) {
      if (C == Quote)
        Quote = 0;
      else if (C == '\\' && Quote == '"' && I + 1 != Text.size())
        Word += Text[++I];
      else
        Word += C;
    } else if (C == '"' || C == '\'') {
      Quote = C;
      Open = true;
    } else if (C == '\\' && I + 1 != Text.size()) {
      Word += Text[++I];
      Open = true;
    } else if (isSpace(C)) {
      Close();
    } else if ((C == '#' && !Open) || StringRef("|;&>").contains(C)) {
      break;
    } else {
      Word += C;
      Open = true;
    }
  }
  Close();
  return Out;
}

static bool isVariable(StringRef Word) {
  auto [Name, Value] = Word.split('=');
  return Word.contains('=') && !Name.empty() && !isDigit(Name[0]) &&
         all_of(Name, [](char C) { return isAlnum(C) || C == '_'; });
}

/// \p Word, or what stands for it where it is a variable of the script.
static std::string withVariable(StringRef Word,
                                const StringMap<std::string> &Variables) {
  StringRef Name = Word;
  if (Name.consume_front("$")) {
    if (Name.consume_front("{"))
      Name.consume_back("}");
    if (auto It = Variables.find(Name); It != Variables.end())
      return It->second;
  }
  return Word.str();
}

/// The number of words in front of the arguments: "VAR=1 python -m pkg". None
/// where the command starts neither a trainer nor a server.
static std::optional<size_t> argumentsOf(ArrayRef<std::string> Words) {
  size_t I = 0;
  while (I != Words.size() &&
         (isVariable(Words[I]) ||
          is_contained({"exec", "nohup", "env", "sudo", "time", "srun", "$"},
                       Words[I])))
    ++I;
  if (!Words.empty() && StringRef(Words[0]).ends_with("=("))
    return 1;
  if (I == Words.size())
    return std::nullopt;
  const StringRef Program = sys::path::filename(Words[I]);
  const auto Next = [&](StringRef Word) {
    return I + 1 < Words.size() && Words[I + 1] == Word;
  };
  if (is_contained({"vllm", "accelerate", "axolotl", "llamafactory-cli",
                    "litgpt", "tune"},
                   Program) &&
      I + 1 < Words.size())
    return I + 2;
  if (is_contained({"torchrun", "deepspeed", "text-generation-launcher",
                    "llama-server", "llama-cli", "trtllm-serve", "lm_eval",
                    "lm-eval", "mpirun"},
                   Program))
    return I + 1;
  if (Program.starts_with("python") && I + 1 < Words.size())
    return I + 1;
  if (Program == "uv" && Next("run"))
    return I + 2;
  return std::nullopt;
}

/// GPT_ARGS="--num-layers 24 ..."
static bool isFlagText(StringRef Word) {
  return isVariable(Word) && Word.contains(" --");
}

static std::vector<Command> commandsOf(StringRef Text) {
  std::vector<Command> Out;
  std::string Joined;
  char Inside = ' ';
  int64_t First = 0;
  size_t Lines = 0;
  forEachLine(Text, [&](StringRef Line, int64_t Number) {
    if (Joined.empty())
      First = Number;
    StringRef Body = Line.rtrim();
    // Megatron-LM's scripts keep flags in arrays and in quoted texts.
    const bool Array = Body.ends_with("=(");
    Inside = Inside == ' ' ? (Array ? ')' : Body.ends_with("=\"") ? '"' : ' ')
                           : Inside;
    const bool Closed = !Array && Inside != ' ' && !Body.ends_with("=\"") &&
                        Body.ends_with(StringRef(&Inside, 1));
    const bool GoesOn =
        Body.consume_back("\\") || (Inside != ' ' && !Closed);
    if (!GoesOn)
      Inside = ' ';
    Joined += (Joined.empty() ? "" : " ") + Body.trim().str();
    if (GoesOn)
      return ++Lines < MaxLinesOfScript;
    if (!Joined.empty())
      Out.push_back({shellWords(Joined), First});
    Joined.clear();
    return ++Lines < MaxLinesOfScript;
  });
  if (!Joined.empty())
    Out.push_back({shellWords(Joined), First});
  return Out;
}

static size_t flagsOf(ArrayRef<std::string> Words) {
  return count_if(Words, [](StringRef W) {
    // fastText and Kaldi have one dash, as has the -m of python.
    if (!W.consume_front("-"))
      return false;
    const bool Two = W.consume_front("-");
    return W.size() > 1 && isAlpha(W[0]) && (Two || isAlpha(W[1]));
  });
}

Match LaunchScriptReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  if (Head.contains('\0') || Head.starts_with("{") || Head.starts_with("<"))
    return Match::No;
  size_t Other = 0;
  const bool Script = Head.starts_with("#!") &&
                      Head.take_until([](char C) { return C == '\n'; })
                          .contains("sh");
  for (const Command &C : commandsOf(Head)) {
    if (C.Words.empty())
      continue;
    if (isFlagText(C.Words[0]))
      return Script ? Match::Possible : Match::No;
    if (std::optional<size_t> Begin = argumentsOf(C.Words);
        Begin && flagsOf(ArrayRef(C.Words).drop_front(*Begin)) > 0)
      return Script || Other == 0 ? Match::Possible : Match::No;
    // Prose and logs that quote a command somewhere are none.
    Other += C.Words[0] != "export" && C.Words[0] != "set" &&
             !isVariable(C.Words[0]) && !StringRef(C.Words[0]).starts_with("#");
    if (!Script && Other > 0)
      return Match::No;
  }
  return Match::No;
}

/// Adds the flags of \p Words: --key value, --key=value, --flag, -flag, and
/// Hydra's key=value.
static void addFlags(ArrayRef<std::string> Words, int64_t Line,
                     ConfigRows &Config) {
  for (size_t I = 0; I != Words.size(); ++I) {
    StringRef Word = Words[I];
    if (!Word.starts_with("-")) {
      // key=value and +key=value; a path with = in it is no setting.
      Word.consume_front("+");
      auto [Key, Value] = Word.split('=');
      if (!Value.empty() && all_of(Key, [](char C) {
            return isAlnum(C) || C == '_' || C == '.';
          }))
        Config.add(Key, Value, Line);
      continue;
    }
    Word = Word.ltrim('-');
    if (Word.empty() || !isAlpha(Word[0]))
      continue;
    auto [Key, Value] = Word.split('=');
    if (Word.contains('=')) {
      Config.add(Key, Value, Line);
      continue;
    }
    std::string Values;
    size_t Count = 0;
    while (I + 1 != Words.size()) {
      const StringRef Next = Words[I + 1];
      const bool Number = Next.size() > 1 && Next[0] == '-' &&
                          (isDigit(Next[1]) || Next[1] == '.');
      if ((Next.starts_with("-") && !Number) || Next.ends_with(".py") ||
          Next == ")" || Next.contains("[@]"))
        break;
      Values += (Count ? ", " : "") + Next.str();
      ++Count;
      ++I;
    }
    // --no-enable-prefix-caching is the same setting turned off.
    if (Count == 0 && (Key.starts_with("no-") || Key.starts_with("no_")))
      Config.add(Key.drop_front(3), "false", Line);
    else
      Config.add(Key, Count == 0 ? "true" : Count == 1 ? Values
                                              : "[" + Values + "]",
                 Line);
  }
}

Error LaunchScriptReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Text = File.contents();
  if (!Text)
    return Text.takeError();
  ConfigRows Config(Into, "", optionName);
  StringMap<std::string> Variables;
  for (Command &C : commandsOf(*Text)) {
    for (std::string &Word : C.Words)
      Word = withVariable(Word, Variables);
    ArrayRef<std::string> Words = C.Words;
    for (StringRef Word : Words)
      if (isVariable(Word) && !Word.ends_with("=("))
        Variables[Word.split('=').first] = Word.split('=').second.str();
    if (!Words.empty() && isFlagText(Words[0])) {
      addFlags(shellWords(StringRef(Words[0]).split('=').second), C.Line,
               Config);
      continue;
    }
    const std::optional<size_t> Begin = argumentsOf(Words);
    const bool Exports = !Words.empty() && Words[0] == "export";
    // What a script keeps for itself is no setting; what it hands on is.
    for (StringRef Word :
         Begin && !StringRef(Words[0]).ends_with("=(")
             ? Words.take_front(*Begin)
               : (Exports ? Words.drop_front() : Words.take_front(0)))
      if (isVariable(Word))
        Config.add(Word.split('=').first, Word.split('=').second, C.Line);
    if (!Begin)
      continue;
    ArrayRef<std::string> Rest = Words.drop_front(*Begin);
    // vllm serve MODEL
    if (!Rest.empty() && *Begin >= 2 && Words[*Begin - 1] == "serve" &&
        !StringRef(Rest[0]).starts_with("-")) {
      Config.add("model", Rest[0], C.Line);
      Rest = Rest.drop_front();
    }
    addFlags(Rest, C.Line, Config);
  }
  Config.finish();
  if (Config.rows() == 0)
    return failure(Into.path() + ": no setting in it",
                   "a command with flags is wanted, such as vllm serve MODEL "
                   "--max-model-len 8192");
  return Error::success();
}

} // namespace culprit
