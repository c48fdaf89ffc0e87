//===- IndexPages.cpp -------------------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "KB/IndexPages.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace llvm;

namespace culprit {

std::string headingAnchor(StringRef Heading) {
  std::string Out;
  for (char C : Heading) {
    bool Beyond = static_cast<unsigned char>(C) >= 0x80;
    if (isAlnum(C) || C == '-' || C == '_' || Beyond)
      Out += toLower(C);
    else if (C == ' ')
      Out += '-';
  }
  return Out;
}

/// The way from the folder \p From to the file \p To.
static std::string relativeLink(StringRef From, StringRef To) {
  SmallString<256> Base(From), Full(To);
  for (SmallString<256> *Path : {&Base, &Full}) {
    sys::fs::make_absolute(*Path);
    sys::path::remove_dots(*Path, /*remove_dot_dot=*/true);
  }
  auto B = sys::path::begin(Base), F = sys::path::begin(Full);
  for (; B != sys::path::end(Base) && F != sys::path::end(Full) && *B == *F;
       ++B, ++F)
    ;
  std::string Out;
  for (; B != sys::path::end(Base); ++B)
    Out += "../";
  for (; F != sys::path::end(Full); ++F)
    Out += (Out.empty() || Out.back() == '/' ? "" : "/") + F->str();
  return Out;
}

/// \p Text as the text of a link or a cell of a table.
static std::string escaped(StringRef Text) {
  std::string Out;
  for (char C : Text) {
    if (StringRef("\\`*_<>|[]").contains(C))
      Out += '\\';
    Out += C == '\n' ? ' ' : C;
  }
  return Out;
}

/// \p Text as code in a cell of a table.
static std::string codeCell(StringRef Text) {
  std::string Marks = Text.contains('`') ? "``" : "`";
  std::string Pad = Text.contains('`') ? " " : "";
  std::string Inner;
  for (char C : Text) {
    if (C == '|')
      Inner += '\\'; // the table is cut into cells before code is found
    Inner += C == '\n' ? ' ' : C;
  }
  return Marks + Pad + Inner + Pad + Marks;
}

static std::string counted(size_t Count, StringRef One, StringRef Many) {
  return std::to_string(Count) + " " + (Count == 1 ? One : Many).str();
}

namespace {

class Pages {
public:
  Pages(ArrayRef<const Entry *> Entries, const Vocabulary &V,
        StringRef Directory)
      : Entries(Entries), V(V) {
    // A second heading of the same words gets a number.
    std::map<std::pair<StringRef, std::string>, unsigned> Seen;
    for (const Entry *E : Entries) {
      std::string Heading = E->Title;
      if (!E->Status.empty())
        Heading = "[" + E->Status + "] " + Heading;
      std::string Anchor = headingAnchor(Heading);
      unsigned Before = Seen[{E->Source.File, Anchor}]++;
      Links[E] = relativeLink(Directory, E->Source.File) + "#" + Anchor +
                 (Before ? "-" + std::to_string(Before) : "");
    }
  }

  std::string byLayer() const {
    std::map<StringRef, std::vector<const ClassTerm *>> Layers;
    std::map<StringRef, std::vector<const Entry *>> ByClass;
    for (const ClassTerm &T : V.classes())
      Layers[T.Layer].push_back(&T);
    for (const Entry *E : Entries)
      ByClass[V.rootCause(E->Class) ? StringRef(E->Class) : ""].push_back(E);
    std::string Out =
        "# Known causes, by layer\n\n" + generated() + "See also " +
        "[by symptom](by-symptom.md) and [by error text](by-error.md); " +
        "`culprit kb search 'what you see'` finds entries by their words.\n";
    for (auto &[Layer, Terms] : Layers)
      Out += "\n- [" + Layer.str() + "](#" + headingAnchor(Layer) + "): " +
             counted(Terms.size(), "cause", "causes");
    Out += '\n';
    for (auto &[Layer, Terms] : Layers) {
      Out += "\n## " + Layer.str() +
             "\n\n| cause | what it is | entries |\n|---|---|---|\n";
      for (const ClassTerm *T : Terms) {
        std::vector<std::string> Found;
        for (const Entry *E : ByClass[T->Id])
          Found.push_back(link(*E, escaped(E->Title)));
        Out += "| `" + T->Id + "` | " + escaped(T->Definition) + " | " +
               (Found.empty() ? "none yet" : join(Found, "<br>")) + " |\n";
      }
    }
    if (auto It = ByClass.find(""); It != ByClass.end()) {
      Out += "\n## Without a class\n\n";
      for (const Entry *E : It->second)
        Out += "- " + link(*E, escaped(E->Title)) + "\n";
    }
    return Out;
  }

  std::string bySymptom() const {
    std::string Out =
        "# Known causes, by symptom\n\n" + generated() +
        "Symptoms are what detectors report. Behind each stands how often a " +
        "cause shows it; *never* rules the cause out.\n";
    std::map<StringRef, std::map<Frequency, std::vector<const Entry *>>> Named;
    for (const Entry *E : Entries)
      for (const Signal &S : E->Signals)
        Named[S.Symptom][S.How].push_back(E);
    std::map<const Entry *, unsigned> Numbers;
    StringRef Group;
    for (const SymptomTerm &T : V.symptoms()) {
      auto It = Named.find(T.Id);
      if (It == Named.end())
        continue;
      if (T.Group != Group) {
        Group = T.Group;
        Out += "\n## " + Group.str() + "\n";
      }
      Out += "\n### " + T.Id + "\n\n" + escaped(T.Text) + "\n\n";
      for (auto &[How, All] : It->second) {
        std::vector<std::string> Found;
        for (const Entry *E : All) {
          unsigned Number = Numbers.try_emplace(E, Numbers.size() + 1)
                                .first->second;
          Found.push_back(
              "[" + (E->Class.empty() ? escaped(E->Title) : E->Class) + "][" +
              std::to_string(Number) + "]");
        }
        Out += "- " + frequencyName(How).str() + ": " + join(Found, ", ") +
               "\n";
      }
    }
    // Each entry stands here dozens of times: the links stand at the end.
    std::map<unsigned, const Entry *> ByNumber;
    for (auto [E, Number] : Numbers)
      ByNumber[Number] = E;
    Out += '\n';
    for (auto [Number, E] : ByNumber)
      Out += "[" + std::to_string(Number) + "]: " + Links.at(E) + "\n";
    return Out;
  }

  std::string byError() const {
    std::string Out = "# Known causes, by error text\n\n" + generated() +
                      "What software prints, word by word; `...` stands for "
                      "any text.\n\n| text | entries |\n|---|---|\n";
    std::map<std::pair<std::string, std::string>, std::vector<const Entry *>>
        ByText;
    for (const Entry *E : Entries)
      for (const std::string &Text : E->LogFragments) {
        std::vector<const Entry *> &All =
            ByText[{StringRef(Text).lower(), Text}];
        if (All.empty() || All.back() != E)
          All.push_back(E);
      }
    for (auto &[Text, All] : ByText) {
      std::vector<std::string> Found;
      for (const Entry *E : All)
        Found.push_back(link(*E, escaped(E->Title)));
      Out += "| " + codeCell(Text.second) + " | " + join(Found, "<br>") +
             " |\n";
    }
    return Out;
  }

private:
  std::string generated() const {
    return counted(Entries.size(), "entry", "entries") +
           ". Generated by `culprit kb export --format index`; do not edit. ";
  }

  std::string link(const Entry &E, const std::string &Text) const {
    return "[" + Text + "](" + Links.at(&E) + ")";
  }

  ArrayRef<const Entry *> Entries;
  const Vocabulary &V;
  std::map<const Entry *, std::string> Links;
};

} // namespace

std::vector<IndexPage> indexPages(ArrayRef<const Entry *> Entries,
                                  const Vocabulary &V, StringRef Directory) {
  Pages P(Entries, V, Directory);
  return {{"README.md", P.byLayer()},
          {"by-symptom.md", P.bySymptom()},
          {"by-error.md", P.byError()}};
}

} // namespace culprit
