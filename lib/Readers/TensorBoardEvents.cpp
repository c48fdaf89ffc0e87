//===- TensorBoardEvents.cpp ------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// Field numbers are those of tensorboard/compat/proto/event.proto.
//
//===----------------------------------------------------------------------===//

#include "Readers/TensorBoardEvents.h"
#include "Readers/ConfigRows.h"
#include "Readers/TensorBoardRecords.h"
#include "Readers/TensorBoardSummary.h"
#include "Support/WireFormat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace culprit {

/// The name that every event file begins with, in its first record.
static constexpr StringLiteral VersionMark = "brain.Event:";

Match TensorBoardEventsReader::matches(const InputFile &File) const {
  StringRef Head = File.head();
  // Ten bytes of wall time, two of the field lie between; a record of a data
  // set has no such text.
  if (Head.size() >= TfRecords::HeaderBytes &&
      Head.take_front(64).contains(VersionMark))
    return Match::Certain;
  if (TfRecords::isHeader(Head) &&
      sys::path::filename(File.path()).contains("tfevents"))
    return Match::Likely;
  return Match::No;
}

namespace {
/// The pass over one file.
class EventPass {
public:
  EventPass(Source &Into, bool Validation)
      : Into(Into), Rows(Into), Config(Into), Validation(Validation) {}

  void event(StringRef Event, int64_t Record);
  void finish();
  size_t rows() const { return Rows.rows() + Config.rows(); }

  int64_t Unreadable = 0; ///< Records that are no Event.
  std::string skipped() const;

private:
  void summary(StringRef Summary);
  void value(const SummaryValue &V);
  void add(StringRef Tag, double Value);
  void endRecord();

  Source &Into;
  ScalarRows Rows;
  ConfigRows Config;
  bool Validation; ///< The file lies in the folder of that split.
  StringMap<std::string> PluginOf;
  StringMap<int64_t> LastStepOf;
  std::string FirstBack;
  unsigned TimesBack = 0;

  // The event, and the record that it and its neighbours of one step become.
  double WallTime = 0;
  int64_t Step = 0, Record = 0;
  bool Open = false;
  int64_t OpenStep = 0;
  StringSet<> OpenTags;

  int64_t Texts = 0, Histograms = 0, Media = 0, Tensors = 0, OtherAxis = 0;
};
} // namespace

/// Keras writes the folders train and validation of one run, with the same
/// tags in both.
static bool isValidationFolder(StringRef Folder) {
  for (StringRef Name : {"validation", "val", "valid", "eval"})
    if (Folder == Name)
      return true;
  return false;
}

/// Adopts the folder above the one of a split as the run, and says whether the
/// split is for validation.
static bool takeSplitOff(Source &Into) {
  StringRef Folder = sys::path::parent_path(Into.path());
  StringRef Name = sys::path::filename(Folder);
  StringRef Parent = sys::path::parent_path(Folder);
  bool Validation = isValidationFolder(Name);
  if ((Name == "train" || Validation) && !Parent.empty())
    Into.Run = Parent.str();
  return Validation;
}

void EventPass::endRecord() {
  if (!Open)
    return;
  // Last: a tag may have the name of a step, and the event's step is the one
  // that TensorBoard shows.
  Rows.step(OpenStep);
  Rows.end();
  Open = false;
  OpenTags.clear();
}

/// Writers make an event of each scalar. What was logged at one step is one
/// record, so that loss and nll_loss do not both become the loss.
void EventPass::add(StringRef Tag, double Value) {
  if (Open && (OpenStep != Step || OpenTags.contains(Tag)))
    endRecord();
  if (!Open) {
    Rows.begin(Record);
    if (WallTime > 0)
      Rows.wallTime(WallTime);
    Open = true;
    OpenStep = Step;
  }
  OpenTags.insert(Tag);
  auto [It, New] = LastStepOf.try_emplace(Tag, Step);
  if (!New && Step < It->second && TimesBack++ == 0)
    FirstBack = (Into.path() + ": record " + Twine(Record) + ": steps of '" +
                 Tag + "' go back from " + Twine(It->second) + " to " +
                 Twine(Step))
                    .str();
  It->second = Step;
  Rows.number(Tag, Value);
}

void EventPass::value(const SummaryValue &V) {
  // Only the first value of a tag says which plugin it is for.
  if (!V.Plugin.empty())
    PluginOf.try_emplace(V.Tag, V.Plugin.str());
  auto It = PluginOf.find(V.Tag);
  StringRef Plugin = It == PluginOf.end() ? "" : StringRef(It->second);
  if (Plugin == "hparams")
    return readHyperparameters(V.PluginData,
                               [&](StringRef Key, StringRef Text) {
                                 Config.add(Key, Text, Record);
                               });
  switch (V.What) {
  case SummaryValue::Nothing:
    return;
  case SummaryValue::Text:
    ++(Plugin == "images" || Plugin == "audio" ? Media : Texts);
    return;
  case SummaryValue::Histogram:
    ++Histograms;
    return;
  case SummaryValue::Media:
    ++Media;
    return;
  case SummaryValue::Tensor:
    ++(Plugin == "histograms" ? Histograms : Tensors);
    return;
  case SummaryValue::Scalar:
    break;
  }
  if (!Plugin.empty() && Plugin != "scalars") {
    ++Tensors;
    return;
  }
  // Megatron-LM logs each curve twice, once over samples, whose numbers are
  // no steps.
  if (V.Tag.ends_with(" vs samples") || V.Tag.ends_with(" vs tokens")) {
    ++OtherAxis;
    return;
  }
  // What a split's own folder says of a tag, as TensorBoard shows it.
  if (Validation && scalarName(("val/" + V.Tag).str()).Known)
    return add(("val/" + V.Tag).str(), *V.Number);
  add(V.Tag, *V.Number);
}

void EventPass::event(StringRef Event, int64_t R) {
  Record = R;
  WallTime = 0;
  Step = 0; // proto3 leaves zeros out
  SmallVector<StringRef, 1> Summaries;
  WireFields F(Event);
  while (F.next()) {
    if (F.is(1, WireFields::Fixed64))
      WallTime = F.asDouble();
    else if (F.is(2, WireFields::Varint))
      Step = F.asInt();
    else if (F.is(5, WireFields::Bytes))
      Summaries.push_back(F.bytes());
  }
  Unreadable += F.broken();
  for (StringRef Summary : Summaries)
    for (WireFields V(Summary); V.next();)
      if (V.is(1, WireFields::Bytes))
        value(readSummaryValue(V.bytes()));
}

void EventPass::finish() {
  endRecord();
  Config.finish();
  if (TimesBack)
    Into.warn(Twine(FirstBack) +
                  (TimesBack > 1
                       ? ", and " + utostr(TimesBack - 1) + " times more"
                       : std::string()),
              "every row was kept; where a step occurs twice, its last row "
              "counts, as after a resume");
}

std::string EventPass::skipped() const {
  std::string Out;
  auto add = [&](int64_t Count, StringRef One) {
    if (Count)
      Out += (Out.empty() ? "" : ", ") + itostr(Count) + " " + One.str() +
             (Count == 1 ? "" : "s");
  };
  add(Texts, "text");
  add(Histograms, "histogram");
  add(Media, "image or sound");
  add(Tensors, "tensor");
  add(OtherAxis, "value over samples");
  return Out;
}

static void tellDamage(const TfRecords &Records, const EventPass &Pass,
                       Source &Into) {
  if (Records.broken() || Pass.Unreadable) {
    int64_t Count = Records.broken() + Pass.Unreadable;
    Into.warn(Into.path() + ": " + Twine(Count) +
                  (Count == 1 ? " record is damaged" : " records are damaged") +
                  (Records.broken()
                       ? ", the first at byte " +
                             utostr(Records.firstBroken())
                       : std::string()),
              "its checksum is wrong; what could be told apart around it was "
              "read");
  }
  if (Records.unfinished())
    Into.Remarks.push_back(
        {Severity::Note,
         (Into.path() + ": the last " + Twine(Records.unfinished()) +
          " bytes are an unfinished record")
             .str(),
         "the run still writes, or was killed while writing; all before it "
         "was read"});
}

Error TensorBoardEventsReader::read(InputFile &File, Source &Into) const {
  Expected<StringRef> Contents = File.contents();
  if (!Contents)
    return Contents.takeError();
  TfRecords Records(*Contents);
  bool Validation = takeSplitOff(Into); // before a row takes the run's name
  EventPass Pass(Into, Validation);
  int64_t Read = 0;
  for (; Records.next(); ++Read)
    Pass.event(Records.data(), Records.number());
  Pass.finish();
  tellDamage(Records, Pass, Into);
  if (std::string Skipped = Pass.skipped(); !Skipped.empty())
    Into.Remarks.push_back({Severity::Note,
                            Into.path() + ": not read: " + Skipped,
                            "only scalars and hparams are evidence here"});
  if (Pass.rows() != 0)
    return Error::success();
  if (Read == 0)
    return failure(Into.path() + ": no whole record in it",
                   "copy the file again, or log at least one scalar");
  Into.warn(Into.path() + ": no scalar was logged",
            "a writer that was opened and not used leaves such a file; flush() "
            "or close() the writer before the run ends");
  return Error::success();
}

} // namespace culprit
