//===- BatchNames.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// The tensors of one batch are looked at together. Each rule below wants one
// word of a list and a shape, or a sum, that only the thing itself has:
//
//   ids and labels     integers of one shape, as `x` and `y` of nanoGPT
//   a map of classes   integers as high and wide as the image beside them
//   classes of points  an integer for each of the points beside them
//   classes of boxes   an integer for each of the boxes beside them
//   a forecast         past and future of one series, in as many rows
//   durations          integers that sum up to the frames of their batch
//   kinds of nodes     an integer for each of the nodes of a batch of graphs
//
//===----------------------------------------------------------------------===//

#include "Case/BatchNames.h"
#include "Case/Schema.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

using namespace llvm;

namespace culprit {

namespace {
/// A tensor of a batch, by its name without "batch.".
struct Member {
  StringRef Leaf;
  bool IsInt = false, IsFloat = false;
  ArrayRef<int64_t> Shape;
  double Sum = NAN, Min = NAN, Max = NAN;
  std::string As; ///< The name that detectors know; empty: as it is.
};

using Words = ArrayRef<StringLiteral>;

class Batch {
public:
  std::vector<Member> Members;

  void name() {
    if (any_of(Members, [](const Member &M) { return M.Leaf == "edge_index"; }))
      return nodes(); // of a graph `x` and `y` are no tokens
    sides();
    texts();
    maps();
    points();
    boxes();
    speech();
    forecasts();
  }

private:
  Member *called(StringRef Leaf) {
    auto It = find_if(Members, [&](Member &M) {
      return M.As.empty() ? M.Leaf == Leaf : M.As == Leaf;
    });
    return It == Members.end() ? nullptr : &*It;
  }

  /// The first of \p Words that stands for a tensor of which \p Is holds.
  template <class Test> Member *first(Words List, Test Is) {
    for (StringRef Word : List)
      if (Member *M = called(Word); M && M->As.empty() && Is(*M))
        return M;
    return nullptr;
  }

  /// Two tensors of one name would be taken for one.
  void rename(Member *M, StringRef To) {
    if (M && M->Leaf != To && !called(To))
      M->As = To.str();
  }

  /// Rows of a text: 4 places or more, since a narrower row is one of
  /// features.
  static bool isText(const Member &M) {
    return M.IsInt && M.Shape.size() == 2 && M.Shape[1] >= 4;
  }

  /// Sides of a pair stand in front of the name: chosen_labels.
  void sides() {
    static constexpr std::pair<StringLiteral, StringLiteral> Sides[] = {
        {"chosen", "chosen_"},
        {"rejected", "rejected_"},
        {"reject", "rejected_"}};
    for (Member &M : Members) {
      StringRef Stem = M.Leaf, Side;
      for (const auto &[Word, To] : Sides)
        if (Stem.consume_front((Word + "_").str()) ||
            Stem.consume_back(("_" + Word).str())) {
          Side = To;
          break;
        }
      if (Side.empty() || M.Shape.size() != 2)
        continue;
      StringRef Is = knownStem(Stem);
      if (!Is.empty())
        rename(&M, (Side + Is).str());
    }
  }

  static StringRef knownStem(StringRef Stem) {
    if (Stem == "ids" || Stem == "tokens" || Stem == "input_ids")
      return "input_ids";
    if (Stem == "labels" || Stem == "targets")
      return "labels";
    if (Stem == "mask" || Stem == "attention_mask")
      return "attention_mask";
    return "";
  }

  /// Ids, and labels of their shape. What the decoder is given belongs to the
  /// labels, and what stands beside it is the source.
  void texts() {
    static constexpr StringLiteral Given[] = {
        "input_ids",      "tokens", "inputs", "input_tokens",
        "input_word_ids", "x",      "X",      "text"};
    static constexpr StringLiteral Told[] = {
        "labels", "targets",   "target",    "decoder_target_tokens",
        "tgt_y",  "label_ids", "target_tokens", "masked_lm_ids",
        "y",      "Y"};
    static constexpr StringLiteral Sources[] = {
        "input_ids",  "src",    "src_tokens", "encoder_input_tokens",
        "source_ids", "inputs"};
    Member *Labels = nullptr, *Ids = nullptr;
    // The decoder's own come first: its source may have the same shape, and
    // what is a source by its name is not what labels are of.
    static constexpr StringLiteral Decoders[] = {
        "decoder_input_ids", "prev_output_tokens", "decoder_input_tokens",
        "tgt"};
    for (Words List : {Words(Decoders), Words(Given)}) {
      for (StringRef Word : List) {
        Member *M = Ids ? nullptr : called(Word);
        if (!M || !M->As.empty() || !isText(*M))
          continue;
        const auto Fits = [&](const Member &L) {
          return isText(L) && L.Shape == M->Shape && &L != M;
        };
        Labels = first(Told, Fits);
        // Without a decoder's ids beside them these may be what it is given.
        if (!Labels && is_contained(Decoders, Word))
          Labels = first({"target_ids", "tgt_ids"}, Fits);
        if (Labels)
          Ids = M;
      }
    }
    if (!Ids)
      return alone();
    const bool Decodes = is_contained(Decoders, Ids->Leaf);
    Member *Source = first(Sources, [&](const Member &M) {
      return isText(M) && &M != Ids && M.Shape[0] == Ids->Shape[0];
    });
    if (Decodes && Source) {
      if (Ids->Leaf != "prev_output_tokens")
        rename(Ids, "decoder_input_ids");
      rename(Source, "input_ids");
      masks(*Source);
    } else if (!Decodes || Ids->Leaf == "decoder_input_tokens") {
      rename(Ids, "input_ids");
      masks(*Ids);
    }
    rename(Labels, "labels");
  }

  /// Ids without labels, by words that mean nothing else, or as the one text
  /// beside images.
  void alone() {
    Member *Ids = first({"input_word_ids", "input_ids"}, isText);
    if (!Ids && any_of(Members, [](const Member &M) {
          return M.IsFloat && M.Shape.size() == 4;
        }))
      Ids = first({"texts", "text", "captions", "caption", "caption_ids"},
                  isText);
    if (!Ids)
      return;
    rename(Ids, "input_ids");
    masks(*Ids);
  }

  /// One where there is text, and 0 at padding, as these names have it.
  void masks(const Member &Ids) {
    rename(first({"input_mask", "source_mask", "src_mask", "text_mask",
                  "caption_mask"},
                 [&](const Member &M) {
                   return M.Shape == Ids.Shape && M.Min >= 0 && M.Max == 1;
                 }),
           "attention_mask");
  }

  bool hasLabels() { return called("label") || called("labels"); }

  void maps() {
    if (hasLabels())
      return;
    rename(first({"gt_semantic_seg", "gt_sem_seg", "sem_seg", "semantic_map",
                  "segmentation_map", "annotation", "target", "y"},
                 [&](const Member &Map) {
                   return Map.IsInt && Map.Shape.size() == 3 &&
                          Map.Shape[1] >= 8 && Map.Shape[2] >= 8 &&
                          any_of(Members, [&](const Member &M) {
                            return M.IsFloat && M.Shape.size() == 4 &&
                                   M.Shape[0] == Map.Shape[0] &&
                                   (M.Shape.drop_front(2) ==
                                        Map.Shape.drop_front(1) ||
                                    M.Shape.slice(1, 2) ==
                                        Map.Shape.drop_front(1));
                          });
                 }),
           "labels");
  }

  void points() {
    if (hasLabels())
      return;
    rename(first({"pts_semantic_mask", "semantic_label", "segment", "seg",
                  "target", "y"},
                 [&](const Member &Of) {
                   return Of.IsInt && Of.Shape.size() == 2 &&
                          any_of(Members, [&](const Member &M) {
                            return M.IsFloat && M.Shape.size() == 3 &&
                                   M.Shape.drop_back() == Of.Shape &&
                                   M.Shape[2] >= 3;
                          });
                 }),
           "labels");
  }

  void boxes() {
    Member *Boxes =
        first({"boxes", "bboxes", "bbox", "gt_bboxes", "gt_boxes"},
              [](const Member &M) {
                return M.IsFloat && M.Shape.size() >= 2 && M.Shape.back() == 4;
              });
    if (!Boxes || hasLabels())
      return;
    rename(first({"cls", "gt_labels", "gt_classes", "category_id",
                  "category_ids", "class_ids", "class_labels"},
                 [&](const Member &M) {
                   return M.IsInt && M.Shape == Boxes->Shape.drop_back();
                 }),
           "labels");
  }

  /// Frames of each symbol, which sum up to the frames of each row.
  void speech() {
    Member *Durations =
        first({"durations", "durs", "dur_padded", "duration"}, isText);
    if (!Durations)
      return;
    const ArrayRef<int64_t> Shape = Durations->Shape;
    Member *Texts = first({"texts", "text", "token_id", "text_padded",
                           "phonemes", "phoneme_ids", "phone_ids", "tokens",
                           "char_ids"},
                          [&](const Member &M) {
                            return M.IsInt && M.Shape == Shape;
                          });
    Member *Frames = nullptr, *Symbols = nullptr;
    for (Member &M : Members) {
      if (!M.IsInt || M.Shape.size() != 1 || M.Shape[0] != Shape[0])
        continue;
      if (std::fabs(M.Sum - Durations->Sum) < 0.5)
        Frames = Frames ? nullptr : &M;
      else if (M.Max == double(Shape[1]) && M.Min > 0 &&
               M.Leaf.contains("len"))
        Symbols = &M;
    }
    if (!Texts || !Frames || !Symbols)
      return;
    rename(Texts, "texts");
    rename(Durations, "durations");
    rename(Frames, "mel_lens");
    rename(Symbols, "src_lens");
  }

  /// The past of a series and its future; transcripts of what was said.
  void forecasts() {
    static constexpr std::pair<StringLiteral, StringLiteral> Pairs[] = {
        {"insample_y", "outsample_y"}, {"context", "target"}};
    for (const auto &[Past, Future] : Pairs) {
      Member *Before = called(Past), *After = called(Future);
      if (!Before || !After || !Before->IsFloat || !After->IsFloat ||
          Before->Shape.size() < 2 ||
          Before->Shape.size() != After->Shape.size() ||
          Before->Shape[0] != After->Shape[0])
        continue;
      rename(first({"outsample_mask", "target_mask"},
                   [&](const Member &M) { return M.Shape == After->Shape; }),
             "future_observed_values");
      rename(Before, "past_target");
      rename(After, "future_target");
    }
    if (!hasLabels() && any_of(Members, [](const Member &M) {
          return M.IsFloat && M.Shape.size() >= 2;
        }))
      rename(first({"transcript", "transcripts"}, isText), "labels");
  }

  void nodes() {
    Member *Of = called("batch");
    if (!Of || Of->Shape.size() != 1)
      return;
    rename(first({"node_feat", "node_attr", "atoms", "atomic_numbers", "V",
                  "feat", "h"},
                 [&](const Member &M) {
                   return M.IsInt && !M.Shape.empty() &&
                          M.Shape[0] == Of->Shape[0] && M.Shape.size() <= 2;
                 }),
           "x");
    const double Graphs = Of->Max + 1;
    rename(first({"energy", "Y"},
                 [&](const Member &M) {
                   return M.IsFloat && !M.Shape.empty() &&
                          double(M.Shape[0]) == Graphs;
                 }),
           "y");
  }
};
} // namespace

/// The tensor at row \p I of \p Tensors, but its name.
static Member memberAt(const Table &Tensors, size_t I, const StringPool &Pool) {
  ArrayRef<ColumnView> Columns = Tensors.columns();
  Member Out;
  const ColumnView &Type = Columns[tensors::dtype];
  const StringRef Name = Type.isNull(I) ? "" : Pool.text(Type.getString(I));
  Out.IsInt = Name.starts_with("int") || Name.starts_with("uint");
  Out.IsFloat = Name.starts_with("float") || Name.starts_with("bfloat");
  const ColumnView &Shape = Columns[tensors::shape];
  if (!Shape.isNull(I))
    Out.Shape = Shape.Data->list(Shape.row(I));
  const auto Number = [&](unsigned C) { return Columns[C].number(I); };
  Out.Sum = Number(tensors::mean) * Number(tensors::numel);
  Out.Min = Number(tensors::min);
  Out.Max = Number(tensors::max);
  return Out;
}

void nameBatches(Table &Tensors, StringPool &Pool) {
  ArrayRef<ColumnView> Columns = Tensors.columns();
  const ColumnView &Name = Columns[tensors::name];
  using Key = std::tuple<StringId, StringId, int64_t, int64_t>;
  std::map<Key, std::pair<Batch, std::vector<size_t>>> Batches;
  const auto Text = [&](unsigned C, size_t I) {
    return Columns[C].isNull(I) ? NullString : Columns[C].getString(I);
  };
  const auto Int = [&](unsigned C, size_t I) {
    return Columns[C].isNull(I) ? NullInt : Columns[C].getInt(I);
  };
  for (size_t I = 0; I != Tensors.rows(); ++I) {
    if (Name.isNull(I))
      continue;
    StringRef Leaf = Pool.text(Name.getString(I));
    if (!Leaf.consume_front("batch."))
      continue;
    auto &[Of, Rows] =
        Batches[{Text(tensors::run, I), Text(tensors::variant, I),
                 Int(tensors::rank, I), Int(tensors::step, I)}];
    Of.Members.push_back(memberAt(Tensors, I, Pool));
    Of.Members.back().Leaf = Leaf;
    Rows.push_back(I);
  }
  // A name means one thing in the whole run: where two batches differ it stays.
  std::map<std::pair<StringId, StringRef>, std::optional<std::string>> Known;
  for (auto &[Of, One] : Batches) {
    One.first.name();
    for (const Member &M : One.first.Members) {
      auto [It, New] = Known.try_emplace({std::get<0>(Of), M.Leaf}, M.As);
      if (!New && It->second != M.As)
        It->second = std::nullopt;
    }
  }
  std::map<size_t, StringId> Renamed;
  for (auto &[Of, One] : Batches)
    for (size_t K = 0; K != One.second.size(); ++K) {
      const auto &As = Known[{std::get<0>(Of), One.first.Members[K].Leaf}];
      if (As && !As->empty())
        Renamed[One.second[K]] = Pool.intern("batch." + *As);
    }
  if (Renamed.empty())
    return;
  auto Data = std::make_shared<Column>(ColumnType::String);
  for (size_t I = 0; I != Tensors.rows(); ++I) {
    auto It = Renamed.find(I);
    Data->addString(It != Renamed.end() ? It->second : Name.getString(I));
  }
  Tensors = Tensors.with("name", std::move(Data));
}

} // namespace culprit
