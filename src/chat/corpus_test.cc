// Real chat templates against the renders of Jinja2 itself, when the shared folder that holds them
// is there.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/json.h"
#include "chat/template.h"

namespace erne {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path CorpusFolder() {
  if (const char* shared = std::getenv("ERNE_SHARED")) return fs::path(shared) / "chat-templates";
  const char* source = std::getenv("ERNE_SOURCE");
  return fs::path(source == nullptr ? "." : source) / ".." / "shared" / "chat-templates";
}

int64_t CorpusTime() { return 1767323045; }  // 2026-01-02T03:04:05

std::string Joined(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

// What is wrong with one case, or "".
std::string CheckCase(const ChatTemplate& chat_template, const Json& one) {
  const auto rendered = chat_template.Render(Json::MakeObject(), *one.Find("context"));
  if (const Json* expected = one.Find("rendered")) {
    if (!rendered.ok()) return "failed: " + rendered.status().message();
    if (Joined(*rendered) == expected->AsString()) return "";
    return "expected:\n" + expected->AsString() + "\ngot:\n" + Joined(*rendered);
  }
  const std::string error = one.Find("error")->AsString();
  if (rendered.ok()) return "should have failed with " + error;
  // raise_exception's own words come through unchanged.
  const std::string raised = "TemplateError: ";
  if (error.rfind(raised, 0) == 0 && rendered.status().message() != error.substr(raised.size())) {
    return "expected the error " + error + ", got " + rendered.status().message();
  }
  return "";
}

TEST(TemplateCorpus, EveryRenderIsJinjas) {
  const fs::path folder = CorpusFolder();
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const std::string name = entry.path().stem().string();
    const auto file = Json::Parse(ReadFile(entry.path()));
    ASSERT_TRUE(file.ok()) << name << ": " << file.status().message();
    const auto compiled =
        ChatTemplate::Compile(ReadFile(folder / (name + ".jinja")), {}, CorpusTime);
    ASSERT_TRUE(compiled.ok()) << name << ": " << compiled.status().message();
    for (const Json& one : file->Find("cases")->AsArray()) {
      ++cases;
      EXPECT_EQ(CheckCase(**compiled, one), "")
          << name << ", case " << one.Find("case")->AsString();
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace erne
