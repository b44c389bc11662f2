// Opens pages in a browser, where there is one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/e2e/process.h"

namespace mobius {

/// Returns the first browser that is installed; empty if there is none.
inline std::string browser() {
  for (const std::string name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0) return name;
  }
  return "";
}

struct ShownPage {
  std::string text;     ///< the page after its scripts have run, without the scripts
  std::string console;  ///< what they have said
};

inline std::string without_scripts(std::string page) {
  for (std::size_t begin; (begin = page.find("<script")) != std::string::npos;) {
    const std::size_t end = page.find("</script>", begin);
    if (end == std::string::npos) break;
    page.erase(begin, end + 9 - begin);
  }
  return page;
}

inline ShownPage shown_in_browser(const std::filesystem::path& page) {
  const TemporaryFolder folder;
  const Outcome dumped =
      Process({browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--user-data-dir=" + folder.path().string(), "--window-size=390,844",
               "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
               "--virtual-time-budget=10000", "--dump-dom", "file://" + page.string()})
          .wait();
  return {without_scripts(dumped.out), dumped.err};
}

}  // namespace mobius
