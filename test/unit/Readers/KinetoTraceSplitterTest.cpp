//===- KinetoTraceSplitterTest.cpp ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "Readers/KinetoTraceSplitter.h"
#include "KinetoTestSupport.h"
#include "Readers/KinetoTraceEvent.h"

using namespace llvm;

namespace culprit::kineto {
namespace {

/// What parsing every chunk gives.
struct Parsed {
  std::vector<std::string> Times; ///< `ts` of the events.
  size_t Broken = 0, Chunks = 0, Largest = 0;
};

Parsed parseAll(Splitter &Cutter, StringRef Text, size_t PieceBytes) {
  Parsed Out;
  uint64_t Next = Text.find("traceEvents");
  Next = Text.find('[', Next == StringRef::npos ? 0 : Next) + 1;
  auto Take = [&](Chunk C) {
    EXPECT_EQ(C.Offset, Next);
    Next += C.Size;
    ++Out.Chunks;
    Out.Largest = std::max(Out.Largest, C.Size);
    EventCursor Cursor(C.text());
    Event E;
    while (!Cutter.ListEnded) {
      EventCursor::Step Step = Cursor.next(E);
      if (Step == EventCursor::Step::Parsed)
        Out.Times.push_back(E.text(Field::Ts).str());
      else if (Step == EventCursor::Step::Broken)
        ++Out.Broken;
      else if (Step == EventCursor::Step::Closed)
        Cutter.tail(C.text().substr(Cursor.position()));
      if (Step == EventCursor::Step::End || Step == EventCursor::Step::Cut)
        break;
    }
    Cutter.recycle(std::move(C));
  };
  while (!Text.empty()) {
    Cutter.feed(Text.take_front(PieceBytes), Take);
    Text = Text.drop_front(std::min(PieceBytes, Text.size()));
  }
  Cutter.finish(Take);
  return Out;
}

// However the stream comes and wherever chunks are cut, every event is in one
// chunk, in order, and the rest is the header.
TEST(KinetoSplitterTest, CutsBetweenEvents) {
  std::string Text = "{\"a\": [1, \"]}\"], \"traceEvents\": [\n", Events;
  for (int I = 0; I != 40; ++I)
    Events += (I ? ",\n" : "") +
              event("cpu_op", "q\\\"}],{" + std::string(I, 'x') + "\\\\",
                    std::to_string(I), "1",
                    R"({"x": [[1], {"y": "["}, {"id": 1}, {"name": 2}]})");
  Text += Events + "\n], \"z\": {}}";
  for (size_t ChunkBytes : {1, 100, 1000, 100000})
    for (size_t PieceBytes : {1, 7, 64, 100000}) {
      Splitter Cutter(ChunkBytes);
      Parsed P = parseAll(Cutter, Text, PieceBytes);
      ASSERT_EQ(P.Times.size(), 40u) << ChunkBytes << " " << PieceBytes;
      for (int I = 0; I != 40; ++I)
        EXPECT_EQ(P.Times[I], std::to_string(I));
      EXPECT_EQ(P.Broken, 0u);
      if (ChunkBytes == 1000) { // 40 events of about 200 bytes
        EXPECT_GE(P.Chunks, 8u);
      }
      EXPECT_EQ(Cutter.Header,
                "{\"a\": [1, \"]}\"], \"traceEvents\": [], \"z\": {}}");
      EXPECT_TRUE(Cutter.Closed);
    }
}

// One stray quote turns inside and outside of strings round for all that
// follows; it must cost one event and not the rest of the file.
TEST(KinetoSplitterTest, RecoversFromAStrayQuote) {
  std::string Text = "[";
  for (int I = 0; I != 200; ++I)
    Text +=
        (I ? ",\n" : "") + event("cpu_op", I == 50 ? "stray\"quote" : "plain",
                                 std::to_string(I), "1");
  Splitter Cutter(/*ChunkBytes=*/256);
  Parsed P = parseAll(Cutter, Text + "]", 100);
  EXPECT_EQ(P.Times.size(), 199u);
  EXPECT_EQ(P.Broken, 1u);
}

// What lies behind the list may be larger than a chunk and look like events
// but for the phase.
TEST(KinetoSplitterTest, LongTailIsHeader) {
  std::string Text = R"({"traceEvents": [)" + event("cpu_op", "a", "1", "1") +
                     R"(], "deviceProperties": [{"id": 0})";
  for (int I = 1; I != 100; ++I)
    Text += R"(, {"id": )" + std::to_string(I) + R"(, "name": "H100"})";
  Text += "]}";
  Splitter Cutter(/*ChunkBytes=*/256);
  Parsed P = parseAll(Cutter, Text, 100000);
  EXPECT_EQ(P.Times.size(), 1u);
  EXPECT_TRUE(Cutter.Closed);
  EXPECT_TRUE(StringRef(Cutter.Header).ends_with("{\"id\": 99, \"name\": "
                                                 "\"H100\"}]}"));
}

// An event above the limit is cut, and costs itself alone.
TEST(KinetoSplitterTest, EventsAreBounded) {
  std::string Text = "[" + event("cpu_op", "a", "1", "1") + ", " +
                     event("cpu_op", std::string(100000, 'x'), "2", "1") +
                     ", " + event("cpu_op", "b", "3", "1") + "]";
  Splitter Cutter(/*ChunkBytes=*/512, /*MaxEvent=*/4096);
  Parsed P = parseAll(Cutter, Text, 1000);
  ASSERT_EQ(P.Times.size(), 2u);
  EXPECT_EQ(P.Times[1], "3");
  EXPECT_LE(P.Largest, 8192u);
}

} // namespace
} // namespace culprit::kineto
