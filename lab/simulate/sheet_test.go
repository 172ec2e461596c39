package simulate

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// sheets are the reports of all studies but that of a mail log, and of odd ones.
func sheets(t *testing.T) map[string]string {
	t.Helper()
	of := sample()
	study, err := Flood(FloodOptions{People: 20, Flood: 300, Concurrent: 5, Service: 100 * time.Millisecond,
		For: 30 * time.Second, Seed: 1, Sources: 1000, Phones: 0.5, Without: 0.05, Hashes: 8e6})
	if err != nil {
		t.Fatal(err)
	}
	virus := VirusReport{Rule: "Rate 1/m.", Recipients: "Each mail goes to somebody new.",
		Table: VirusTable(DocumentParams())}
	for _, r := range virus.Table {
		virus.Viruses = append(virus.Viruses, VirusTried{r.Rate, r.Given})
	}
	stolen := *of.Reach
	stolen.Stolen = append([]Stolen{{User: hostile, PerHour: math.NaN(), FoundAfter: -1, Problem: hostile}},
		stolen.Stolen...)
	stolen.FlagsMonthly, stolen.FlagsRange = math.Inf(1), Interval{math.NaN(), math.Inf(1)}
	pages := map[string]string{}
	for name, write := range map[string]func(io.Writer) error{
		"reach":     ReachReport{of.Reach, of.Log, "Threshold dynamic."}.Sheet(10).Page,
		"virus":     virus.Sheet().Page,
		"flood":     study.Sheet(FloodOptions{Flood: 300}).Page,
		"odd-reach": ReachReport{&stolen, of.Log, hostile}.Sheet(10).Page,
		"no-reach":  ReachReport{&ReachStudy{}, LogInfo{}, ""}.Sheet(10).Page,
		"no-virus":  VirusReport{}.Sheet().Page,
		"lives-virus": VirusReport{Viruses: []VirusTried{{1,
			VirusRange{VirusPoint{Passed: 1 << 40, StoppedAfter: -1}, VirusPoint{StoppedAfter: -1}}}}}.Sheet().Page,
		"no-flood": (&FloodStudy{}).Sheet(FloodOptions{}).Page,
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		pages[name] = b.String()
	}
	return pages
}

func TestSheets(t *testing.T) {
	t.Parallel()
	pages := sheets(t)
	for name, wants := range map[string][]string{
		"reach": {"17 of 672 users would have been flagged for writing to too many new people, 21 times in all.",
			"95%: 0.384 to 0.948", "2.53% of 672 (95%: 1.59% to 4.01%)",
			"32 new recipients", InSample, "exact Poisson", "Recipients are those of the log", "in 150 days"},
		"virus": {"Lovgate.A", "never sent", `<figure id="stopped"`, "a virus would reach",
			"Each mail goes to somebody new."},
		"flood": {`<figure id="price"`, "open at the end", "people on phones", "flood that pays", "served without weir",
			"(95%: "},
	} {
		for _, want := range wants {
			if !strings.Contains(pages[name], want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
	for name, page := range pages {
		for _, bad := range []string{"NaN", "Inf", "%!", "<script", "<img", "http:", "https:", "@import"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: %s in the page", name, bad)
			}
		}
		if !strings.Contains(page, "</footer>") {
			t.Errorf("%s: cut off", name)
		}
	}
}

// Everybody who came is served, refused, gone, or still there: no column is left for anybody else.
func TestFloodCrowdsAddUp(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s, err := Flood(FloodOptions{
		People: 20, Flood: 300, Hashes: 8e6, Concurrent: 5, Service: 100 * time.Millisecond, For: 30 * time.Second,
		Until: 30 * time.Second, From: 10 * time.Second, Seed: 3, Sources: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(s.Crowds, s.Without...) {
		if open := c.Offered - c.Served - c.Refused - c.Left; open < 0 {
			t.Errorf("%+v", c)
		}
	}
}

// TestSheetsInBrowser: they stand on every screen, in both schemes, as the report of a mail log does.
func TestSheetsInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	pages := sheets(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, pages[r.URL.Path[1:]])
	}))
	t.Cleanup(server.Close)
	p := browser.Open(t)
	for i, screen := range browser.Screens {
		for _, scheme := range browser.Schemes {
			p.Show(screen)
			p.Prefer(scheme)
			for name := range pages {
				whole := name == "reach" || name == "virus" || name == "flood"
				if !whole && (i > 0 || scheme != "light") {
					continue
				}
				at := "sheet-" + name + "-" + screen.Name + "-" + scheme
				p.Visit(server.URL + "/" + name)
				for _, d := range browser.Eval[[]drawn](p, drawnJS) {
					checkDrawn(t, at, d)
					if whole && (d.Nothing || d.Marks < 5) {
						t.Errorf("%s: %+v", at, d)
					}
				}
				for _, faint := range browser.Eval[[]string](p, faintJS) {
					t.Errorf("%s: %s", at, faint)
				}
				picture(p, at)
				for _, fault := range p.Faults() {
					t.Errorf("%s: %s", at, fault)
				}
				// it takes a while, and all are made of the same parts
				if name == "flood" && i == 0 && scheme == "light" {
					for _, found := range p.Axe() {
						t.Errorf("%s: %s", at, found)
					}
				}
			}
		}
	}
}
