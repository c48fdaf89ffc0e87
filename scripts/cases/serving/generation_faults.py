"""F47: what goes wrong between prompt and answer, and what only looks so.

`record(case)` asks, answers under the fault, and writes the files.
"""


class Fault:
    id, root_class, also = None, None, ()
    levels = 2
    note = ""


class GreedyLoop(Fault):
    """Stories are decoded greedily; the model never finds a reason to end."""
    id, root_class = "F47a", "greedy-decoding-loop"

    def record(self, case):
        asked = case.ask(*["story"] * (12 if case.level else 6),
                         *["fact"] * 6, temperature=0.0, max_tokens=160)
        case.rng.shuffle(asked)
        case.write_answers(case.reply(asked), 2 if case.level else 0)
        case.write_model()


class TooHot(Fault):
    """A client sends temperature 3 (2 in the milder case) and no nucleus."""
    id, root_class = "F47b", "decoding-settings-degenerate"

    def record(self, case):
        asked = case.ask(*["fact"] * 8, *["notes"] * 4, *["story"] * 4,
                         temperature=3.0 if case.level else 2.0, max_tokens=48)
        # TGI alone has them after the temperature.
        answers = case.reply(asked, processed=not (case.vllm or case.mixed))
        case.write_answers(answers, case.with_logprobs())
        case.write_model()


class WrongTokenizer(Fault):
    """Tokenizer and weights are of two models: answers are decoded with the
    other vocabulary (milder), or prompts are encoded with it as well."""
    id, root_class = "F47c", "tokenizer-mismatch"

    def record(self, case):
        other = case.other_tokenizer(permuted=bool(case.level))
        asked = case.ask(*["fact"] * 9, *["notes"] * 4, *["poem"] * 2, "list",
                         max_tokens=72)
        how = dict(writes=other, reads=other if case.level else None)
        case.write_answers(case.reply(asked, **how), case.with_logprobs())
        case.write_model()


class NoBos(Fault):
    """The server renders the template without its first token."""
    id, root_class = "F47d", "missing-bos-token"

    def record(self, case):
        asked = case.ask(*["fact"] * (6 if case.level else 12),
                         *["notes"] * (3 if case.level else 6), max_tokens=48)
        case.write_answers(case.reply(asked, bos=False), case.with_logprobs(),
                           prompt_ids=bool(case.level))
        case.write_model()


class EndBanned(Fault):
    """The end token is masked while decoding (a bias of -100), or drawn and
    ignored in the milder case."""
    id, root_class = "F47e", "end-token-suppressed"
    also = ["stop-token-set-incomplete"]

    def record(self, case):
        t, h = case.tokenizer, case.host.host
        asked = case.ask(*["fact"] * 9, *["notes"] * 3, max_tokens=64)
        if case.level:
            how = dict(banned=(t.id_of(h.end_turn), t.id_of(h.end_text)))
        else:
            how = dict(ignore_end=True)
        case.write_answers(case.reply(asked, **how), 3)
        case.write_model()


class BaseServed(Fault):
    """The checkpoint before tuning is served under the chat model's name."""
    id, root_class = "F47f", "base-checkpoint-served"

    def record(self, case):
        asked = case.ask(*["fact"] * 10, *["notes"] * 3, *["list"] * 2,
                         max_tokens=64)
        case.write_answers(case.reply(asked, checkpoint="base"),
                           case.with_logprobs())
        case.write_model()


class PromptCut(Fault):
    """The server keeps the last tokens of a prompt and says nothing."""
    id, root_class = "F47g", "context-window-silently-truncated"

    def record(self, case):
        asked = case.ask(*["fact"] * 6, max_tokens=40)
        for lines in (4, 5, 6, 7, 8, 5, 7):
            text, question, right = case.world.notes(case.rng, lines)
            asked += case.ask("fact", max_tokens=40)
            asked[-1].question = f"{text}\n{question}"
            asked[-1].expected = right
        case.rng.shuffle(asked)
        # TGI tells the tokens of a prompt only with their list.
        kept = case.reply(asked, keep=56 if case.vllm else
                          96 if case.mixed else 84)
        case.write_answers(kept, case.with_logprobs() and 2 * (
                               case.vllm or case.mixed),
                           prompt_ids=not (case.vllm or case.mixed),
                           server_log=bool(case.level))
        case.write_model()


class ForcedToken(Fault):
    """Greedy decoding hands out a token that is not the likeliest one, at the
    first token of the fact asked for."""
    id, root_class = "F47h", "spec-decode-acceptance-logic"
    also = ["grammar-bitmask-corruption"]

    def record(self, case):
        asked = case.ask(*["fact"] * 16, temperature=0.0, max_tokens=40)
        sound = case.reply(asked)
        forced = {}
        for a in sound[::2 if case.level else 5]:
            tokens = [t.id for t in a.tokens]
            # Where this answer names the fact: behind " is".
            at = max((i + 1 for i, t in enumerate(a.tokens[:-2])
                      if t.text == " is"), default=len(tokens) // 2)
            other = case.rng.choice([b for b in sound if b is not a])
            token = next((t.id for t in other.tokens[::-1]
                          if t.text.startswith(" ") and t.id not in tokens),
                         tokens[0])
            forced[a.request.id, at] = token
        case.label["tokens"] = {id: at for id, at in forced}
        case.write_answers(case.reply(asked, forced=forced), 3)
        case.write_model()


class Repetitive(Fault):
    """Lists, code, poems with refrains and quotes, decoded greedily."""
    id = "H21"

    def record(self, case):
        asked = case.ask(*["list"] * 5, *["code"] * 5, *["poem"] * 5,
                         *["quote"] * 4, temperature=0.0, max_tokens=150)
        case.write_answers(case.reply(asked), case.with_logprobs() and 1)
        case.write_model()


class CutOnPurpose(Fault):
    """A client that wants the beginning of stories and sets a small limit."""
    id = "H22"

    def record(self, case):
        asked = case.ask(*["story"] * 14, *["poem"] * 4, temperature=0.8,
                         max_tokens=40 if case.level else 96)
        case.write_answers(case.reply(asked), case.with_logprobs())
        case.write_model()


class Creative(Fault):
    """Stories and poems at temperature 1."""
    id = "H23"

    def record(self, case):
        asked = case.ask(*["story"] * 12, *["poem"] * 4, *["list"] * 2,
                         temperature=1.0, top_p=0.95 if case.level else 1.0,
                         max_tokens=150)
        case.write_answers(case.reply(asked), case.with_logprobs() and 2)
        case.write_model()


class Sound(Fault):
    """Questions with known answers, as the faults above ask them."""
    id = "H24"

    def record(self, case):
        asked = case.ask(*["fact"] * (7 if case.level else 12), *["notes"] * 2,
                         *["quote"] * 2, max_tokens=64)
        case.write_answers(case.reply(asked), case.with_logprobs(),
                           prompt_ids=bool(case.level))
        case.write_model()


FAULTS = (GreedyLoop(), TooHot(), WrongTokenizer(), NoBos(), EndBanned(),
          BaseServed(), PromptCut(), ForcedToken(), Repetitive(),
          CutOnPurpose(), Creative(), Sound())
