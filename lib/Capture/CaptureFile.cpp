//===- CaptureFile.cpp ------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Capture/CaptureFile.h"
#include "Capture/Decode.h"
#include "Capture/SchemaText.h"
#include <algorithm>

namespace culprit::capture {

/// Checksums of what turns out to be no frame may cost this much in all, so
/// that bytes made of frame heads are not read a million times.
static constexpr uint64_t WasteFactor = 4, WasteLeast = 64u << 20;

/// No writer gives ids beyond.
static constexpr uint32_t MaxTextId = 1u << 20;

bool CaptureFile::isCapture(std::string_view Bytes) {
  return Bytes.size() >= sizeof(Magic) &&
         !std::memcmp(Bytes.data(), Magic, sizeof(Magic));
}

CaptureFile::CaptureFile(std::string_view Bytes) {
  if (!Bytes.empty())
    std::memcpy(&Head, Bytes.data(), std::min(Bytes.size(), sizeof(Head)));
  HeadGood = Bytes.size() >= sizeof(Head) &&
             Head.Crc == crc32c(0, Bytes.data(), offsetof(Superblock, Crc));
  // Texts end, also in a damaged superblock.
  for (char *Last : {&Head.Agent[sizeof(Head.Agent) - 1],
                     &Head.Host[sizeof(Head.Host) - 1],
                     &Head.Executable[sizeof(Head.Executable) - 1],
                     &Head.CuptiPath[sizeof(Head.CuptiPath) - 1],
                     &Head.Command[sizeof(Head.Command) - 1]})
    *Last = 0;
  TextRoom = MaxTextId + Bytes.size() / sizeof(StringHead);
  scan(Bytes);
  order();
  read();
}

static size_t padded(size_t Size) {
  return (Size + FrameAlign - 1) / FrameAlign * FrameAlign;
}

/// Whether a frame begins at \p At; adds what a wrong checksum cost to \p Waste.
static bool frameAt(std::string_view Bytes, size_t At, Frame &F,
                    uint64_t &Waste) {
  if (Bytes.size() - At < sizeof(Frame))
    return false;
  std::memcpy(&F, Bytes.data() + At, sizeof(F));
  if (F.Magic != FrameMagic || F.Payload > MaxPayload ||
      F.Payload > Bytes.size() - At - sizeof(Frame))
    return false;
  uint32_t Crc = crc32c(0, &F, offsetof(Frame, Crc));
  if (crc32c(Crc, Bytes.data() + At + sizeof(F), F.Payload) == F.Crc)
    return true;
  Waste += F.Payload;
  return false;
}

/// See isTailCut.
static bool isCutFrame(std::string_view Rest) {
  if (Rest.find_first_not_of('\0') == std::string_view::npos)
    return true;
  if (std::memcmp(Rest.data(), &FrameMagic,
                  std::min(Rest.size(), sizeof(FrameMagic))))
    return false;
  Frame F;
  if (Rest.size() < sizeof(F))
    return true;
  std::memcpy(&F, Rest.data(), sizeof(F));
  return F.Payload <= MaxPayload && F.Payload > Rest.size() - sizeof(F);
}

void CaptureFile::scan(std::string_view Bytes) {
  uint64_t Waste = 0;
  const uint64_t Limit = WasteFactor * Bytes.size() + WasteLeast;
  size_t At = SuperblockSize, Begin = At;
  while (At < Bytes.size()) {
    Frame F;
    if (Waste > Limit || !frameAt(Bytes, At, F, Waste)) {
      At += FrameAlign;
      continue;
    }
    if (At != Begin)
      Gaps.push_back({Begin, At - Begin});
    Frames.push_back({F, Bytes.data() + At + sizeof(Frame), At});
    At += padded(sizeof(Frame) + F.Payload);
    Begin = At;
  }
  if (Begin < Bytes.size()) {
    Gaps.push_back({Begin, Bytes.size() - Begin});
    TailCut = isCutFrame(Bytes.substr(Begin));
  }
}

uint64_t CaptureFile::gapBytes() const {
  uint64_t Sum = 0;
  for (const Gap &G : Gaps)
    Sum += G.Size;
  return Sum;
}

void CaptureFile::order() {
  std::stable_sort(Frames.begin(), Frames.end(),
                   [](const FrameView &A, const FrameView &B) {
                     return A.Head.Sequence < B.Head.Sequence;
                   });
  auto SameSequence = [](const FrameView &A, const FrameView &B) {
    return A.Head.Sequence == B.Head.Sequence;
  };
  Frames.erase(std::unique(Frames.begin(), Frames.end(), SameSequence),
               Frames.end());
  uint64_t Next = 0;
  for (const FrameView &V : Frames) {
    Missing += V.Head.Sequence - Next;
    Next = V.Head.Sequence + 1;
  }
}

template <typename T> static bool readAs(const FrameView &V, T &To) {
  if (V.Head.Payload < sizeof(T))
    return false;
  std::memcpy(&To, V.Payload, sizeof(T));
  return true;
}

void CaptureFile::read() {
  for (const FrameView &V : Frames) {
    ClockSample Clock;
    Heartbeat Beat;
    switch (V.Head.Type) {
    case FrameType::Schema:
      readSchema(V);
      break;
    case FrameType::Strings:
      readStrings(V);
      break;
    case FrameType::Records:
      if (const Layout *L = layout(V.Head.Epoch, RecordKind(V.Head.Kind)))
        Counts[V.Head.Kind] += count(V, *L);
      else
        WithoutSchema += V.Head.Count;
      break;
    case FrameType::Again:
      // Frames of epoch 0 tell all that there was before.
      if (Frames.front().Head.Epoch)
        FirstAgain = std::min(FirstAgain, V.Head.Epoch);
      break;
    case FrameType::Clock:
      for (uint32_t I = 0; (I + 1) * sizeof(Clock) <= V.Head.Payload; ++I) {
        std::memcpy(&Clock, V.Payload + I * sizeof(Clock), sizeof(Clock));
        Clocks.push_back(Clock);
      }
      break;
    case FrameType::Drops:
      readAs(V, Lost);
      break;
    case FrameType::Heartbeat:
      if (readAs(V, Beat))
        Beats.push_back(Beat);
      break;
    case FrameType::End:
      readEnd(V);
      break;
    default: // Of a newer version, or with nothing to keep.
      break;
    }
  }
}

void CaptureFile::readSchema(const FrameView &V) {
  SchemaHead Given;
  SchemaText Ours;
  if (!readAs(V, Given) || !Given.Size || Given.Size > MaxPayload ||
      !schemaText(RecordKind(V.Head.Kind), Ours))
    return;
  size_t Fields = std::min<size_t>(
      Given.Fields, (V.Head.Payload - sizeof(Given)) / sizeof(SchemaField));
  Layout L;
  L.Size = Given.Size;
  L.Same = Given.Size == Ours.Head.Size && Fields == Ours.Head.Fields &&
           !std::memcmp(V.Payload + sizeof(Given), Ours.Fields,
                        Fields * sizeof(SchemaField));
  for (size_t I = 0; I < Fields && !L.Same; ++I) {
    SchemaField F;
    std::memcpy(&F, V.Payload + sizeof(Given) + I * sizeof(F), sizeof(F));
    F.Name[sizeof(F.Name) - 1] = 0;
    for (uint32_t K = 0; K < Ours.Head.Fields; ++K)
      if (!std::strcmp(Ours.Fields[K].Name, F.Name))
        L.Moves.push_back(
            {F.Offset, Ours.Fields[K].Offset, F.Type, Ours.Fields[K].Type});
  }
  Layouts[{V.Head.Epoch, V.Head.Kind}] = std::move(L);
}

void CaptureFile::readStrings(const FrameView &V) {
  std::vector<std::string_view> &Of = Texts[V.Head.Epoch];
  for (size_t At = 0; At + sizeof(StringHead) <= V.Head.Payload;) {
    StringHead S;
    std::memcpy(&S, V.Payload + At, sizeof(S));
    At += sizeof(S);
    // Ids are dense; one far beyond is of no string that was written.
    if (S.Size > V.Head.Payload - At || !S.Id || S.Id > MaxTextId)
      return;
    if (Of.size() < S.Id) {
      if (S.Id - Of.size() > TextRoom)
        return;
      TextRoom -= S.Id - Of.size();
      Of.resize(S.Id);
    }
    Of[S.Id - 1] = {V.Payload + At, S.Size};
    At += (size_t(S.Size) + 3) / 4 * 4;
  }
}

void CaptureFile::readEnd(const FrameView &V) {
  if (!readAs(V, End))
    return;
  HasEnd = true;
  Lost = End.Lost;
  for (uint32_t I = 0; I < End.Kinds; ++I) {
    KindTotal T;
    size_t At = sizeof(End) + size_t(I) * sizeof(T);
    if (At + sizeof(T) > V.Head.Payload)
      return;
    std::memcpy(&T, V.Payload + At, sizeof(T));
    if (T.Kind > MaxRecordKind)
      continue;
    Totals[T.Kind] = T.Written;
    More[T.Kind] = {T.Written, 0};
    size_t Next = sizeof(End) + size_t(End.Kinds) * sizeof(T) +
                  size_t(I) * sizeof(KindMore);
    if (Next + sizeof(KindMore) <= V.Head.Payload)
      std::memcpy(&More[T.Kind], V.Payload + Next, sizeof(KindMore));
  }
  size_t Rest = sizeof(End) +
                size_t(End.Kinds) * (sizeof(KindTotal) + sizeof(KindMore));
  if (Rest + sizeof(Kept) <= V.Head.Payload)
    std::memcpy(&Kept, V.Payload + Rest, sizeof(Kept));
}

bool CaptureFile::isRing() const {
  if (HeadGood && Head.Major == 1 && Head.Minor >= 1)
    return Head.Full == FullPolicy::Ring;
  // Before that only epochs told, of which a full file may have two.
  return !Frames.empty() && Frames.back().Head.Epoch > 0;
}

uint64_t CaptureFile::overwritten() const {
  uint64_t Sum = 0;
  for (const KindMore &M : More)
    Sum += M.Overwritten;
  return Sum;
}

std::vector<StateView> CaptureFile::states() const {
  std::vector<StateView> Out;
  for (const FrameView &V : Frames) {
    StateView S;
    if (V.Head.Type != FrameType::State || !readAs(V, S.Head))
      continue;
    S.What = {V.Payload + sizeof(S.Head), V.Head.Payload - sizeof(S.Head)};
    Out.push_back(S);
  }
  return Out;
}

const CaptureFile::Layout *CaptureFile::layout(uint32_t Epoch,
                                               RecordKind Kind) const {
  auto It = Layouts.find({Epoch, uint16_t(Kind)});
  return It == Layouts.end() ? nullptr : &It->second;
}

uint32_t CaptureFile::count(const FrameView &V, const Layout &L) {
  return std::min(V.Head.Count, V.Head.Payload / L.Size);
}

std::string_view CaptureFile::text(uint32_t Epoch, uint32_t Id) const {
  auto It = Texts.find(Epoch);
  if (It == Texts.end() || !Id || Id > It->second.size())
    return {};
  return It->second[Id - 1];
}

static size_t widthOf(FieldType T) {
  switch (T) {
  case FieldType::U8:
    return 1;
  case FieldType::U16:
    return 2;
  case FieldType::U32:
  case FieldType::I32:
  case FieldType::String:
    return 4;
  case FieldType::U64:
  case FieldType::I64:
  case FieldType::F64:
    return 8;
  }
  return 0;
}

/// Copies the fields that both know. A field that became wider keeps its value;
/// so does one that became narrower, as far as it fits.
void CaptureFile::convert(const Layout &L, const char *From, char *To) {
  for (const Move &M : L.Moves) {
    size_t Width = widthOf(M.FromType);
    if (!Width || M.From > L.Size || L.Size - M.From < Width)
      continue;
    uint64_t Value = 0;
    std::memcpy(&Value, From + M.From, Width);
    if (M.FromType == FieldType::I32)
      Value = static_cast<uint64_t>(
          static_cast<int64_t>(static_cast<int32_t>(Value)));
    std::memcpy(To + M.To, &Value, widthOf(M.ToType));
  }
}

} // namespace culprit::capture
