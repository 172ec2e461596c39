package browser

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestVisitorsAreStrangers: visitors of the same browser know nothing of each other.
func TestVisitorsAreStrangers(t *testing.T) {
	t.Parallel()
	url := serve(t, "", good+`<h1>x</h1>`)
	one, two := Open(t), Open(t)
	for _, p := range []*Page{one, two} {
		p.Visit(url)
		if got := Eval[string](p, "document.cookie + (localStorage.x ?? '')"); got != "" {
			t.Errorf("finds %q", got)
		}
		Eval[bool](p, "document.cookie = 'a=1', localStorage.x = 1, true")
	}
	if a, b := chromedp.FromContext(one.ctx), chromedp.FromContext(two.ctx); a.Browser != b.Browser {
		t.Error("two browsers")
	}
}

// TestDeadBrowser: after a browser that died there is another one, and nothing of either is left.
func TestDeadBrowser(t *testing.T) {
	t.Parallel()
	path := find(t, names)
	c := &chromium{on: true}
	defer c.close()
	first, end, err := c.visitor(path)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	b := chromedp.FromContext(first).Browser
	if err := b.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	<-b.LostConnection
	second, end, err := c.visitor(path)
	if err != nil {
		t.Fatal(err)
	}
	if chromedp.FromContext(second).Browser == b {
		t.Error("the dead one")
	}
	end()
	again := chromedp.FromContext(second).Browser
	c.close()
	<-again.LostConnection
}
