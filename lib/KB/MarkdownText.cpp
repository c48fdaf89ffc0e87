//===- MarkdownText.cpp -----------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/MarkdownText.h"
#include "KB/MarkdownNode.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace culprit {

using Kind = MarkdownNode::Kind;

/// Calls \p Enter and \p Leave for \p Top and the nodes below it, in order. No
/// recursion, since the nesting is up to whoever wrote the file.
static void walk(const MarkdownNode &Top,
                 function_ref<void(const MarkdownNode &)> Enter,
                 function_ref<void(const MarkdownNode &)> Leave) {
  SmallVector<const MarkdownNode *, 16> Open;
  for (const MarkdownNode *N = &Top; N;) {
    Enter(*N);
    if (N->First) {
      Open.push_back(N);
      N = N->First;
      continue;
    }
    Leave(*N);
    while (!Open.empty() && !N->Next) {
      N = Open.pop_back_val();
      Leave(*N);
    }
    N = Open.empty() ? nullptr : N->Next;
  }
}

/// Whether the line that the text ends with is a row of a table; CommonMark
/// has no tables and would run their rows together.
bool InlineRenderer::inTableRow() {
  if (!Any)
    LineBegin = Seen = 0;
  size_t End = StringRef(Out).drop_front(Seen).rfind('\n');
  if (End != StringRef::npos)
    LineBegin = Seen + End + 1;
  Any = true;
  Seen = Out.size();
  return StringRef(Out).drop_front(LineBegin).ltrim().starts_with("|");
}

static void renderCode(std::string &Out, StringRef Code) {
  StringRef Ticks = Code.contains('`') ? "``" : "`";
  StringRef Space = Code.starts_with("`") || Code.ends_with("`") ? " " : "";
  for (StringRef Part : {Ticks, Space, Code, Space, Ticks})
    Out += Part;
}

void InlineRenderer::leaf(const MarkdownNode &N) {
  switch (N.K) {
  case Kind::Text:
  case Kind::Html:
    Out += N.Text;
    break;
  case Kind::Code:
    renderCode(Out, N.Text);
    break;
  case Kind::SoftBreak:
    Out += inTableRow() ? '\n' : ' ';
    break;
  case Kind::LineBreak:
    Out += '\n';
    break;
  default:
    break;
  }
}

void InlineRenderer::address(StringRef Url) {
  StringRef Bare = Url;
  Bare.consume_front("mailto:");
  if (Url.empty() || StringRef(Out).ends_with(Bare))
    return;
  for (StringRef Part : {StringRef(" ("), Url, StringRef(")")})
    Out += Part;
}

void InlineRenderer::add(const MarkdownNode &N) {
  if (!N.First && N.K != Kind::Link)
    return leaf(N);
  walk(
      N, [&](const MarkdownNode &At) { leaf(At); },
      [&](const MarkdownNode &At) {
        if (At.K == Kind::Link)
          address(At.Text);
      });
}

std::string inlineText(const MarkdownNode *Block) {
  std::string Out;
  InlineRenderer Renderer(Out);
  for (const MarkdownNode *N = Block->First; N; N = N->Next)
    Renderer.add(*N);
  return Out;
}

std::string codeBlockText(const MarkdownNode *N) {
  StringRef Code = N->Text;
  StringRef Fence = Code.contains("```") ? "````" : "```";
  std::string Out = Fence.str();
  Out += N->Info;
  Out += '\n';
  Out += Code;
  if (!Code.empty() && !Code.ends_with("\n"))
    Out += '\n';
  Out += Fence;
  return Out;
}

std::string flatText(const MarkdownNode *N) {
  std::string Out;
  walk(
      *N,
      [&](const MarkdownNode &At) {
        if (At.K == Kind::Link || At.Text.empty())
          return;
        if (!Out.empty())
          Out += ' ';
        Out += At.Text;
      },
      [](const MarkdownNode &) {});
  return Out;
}

} // namespace culprit
