#include "train/results/results_page.h"

#include "train/page/embedded.h"
#include "train/page/page.h"
#include "train/results/results_json.h"

namespace mobius {

std::string to_html(const std::vector<StudyReport>& reports) {
  return to_page({.title = "Mobius: experiments",
                  .maker = "mobius experiment",
                  .content = embedded::results_html,
                  .script = embedded::results_js},
                 to_json(reports));
}

}  // namespace mobius
