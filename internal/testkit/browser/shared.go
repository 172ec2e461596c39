package browser

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Main runs the tests of a package in one Chromium and returns their exit code. It is for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }
//
// The browser starts with the first test that opens a page. It is closed after the last test. Where the tests end
// otherwise, by a panic or a signal, the kernel ends it with them (on Linux).
func Main(m *testing.M) int {
	shared.mu.Lock()
	shared.on = true
	shared.mu.Unlock()
	defer shared.close()
	return m.Run()
}

// shared is the Chromium of this test binary, where it has Main.
var shared chromium

type chromium struct {
	mu   sync.Mutex
	on   bool
	root context.Context // nil as long as no test has needed a browser
	end  func()
}

// visitor returns a tab of somebody who was never here before.
func (c *chromium) visitor(path string) (context.Context, func(), error) {
	c.mu.Lock()
	on := c.on
	c.mu.Unlock()
	if !on {
		return start(path)
	}
	for tries := 0; ; tries++ {
		root, err := c.running(path)
		if err != nil {
			return nil, nil, err
		}
		ctx, end := chromedp.NewContext(root, chromedp.WithNewBrowserContext())
		if err := open(ctx, end); err == nil {
			return ctx, end, nil
		} else if !dead(root) || tries > 0 {
			return nil, nil, err
		}
		// The browser died since a test used it. Another one takes its place.
	}
}

// dead reports whether a browser is gone. Its connection is lost a moment before its context ends.
func dead(root context.Context) bool {
	if root.Err() != nil {
		return true
	}
	select {
	case <-chromedp.FromContext(root).Browser.LostConnection:
		return true
	default:
		return false
	}
}

// running returns the shared browser, and starts it where it does not run.
func (c *chromium) running(path string) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root != nil && !dead(c.root) {
		return c.root, nil
	}
	if c.root != nil {
		c.end()
	}
	root, end, err := start(path)
	if err != nil {
		c.root = nil
		return nil, err
	}
	c.root, c.end = root, end
	return root, nil
}

func (c *chromium) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.root, bound)
	defer cancel()
	_ = chromedp.Cancel(ctx) // end kills what does not close
	c.end()
	c.root = nil
}

// start starts a Chromium with a profile of its own, which goes with it.
func start(path string) (context.Context, func(), error) {
	profile, err := os.MkdirTemp("", "weir-browser-")
	if err != nil {
		return nil, nil, err
	}
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path),
		chromedp.UserDataDir(profile),
		chromedp.DisableGPU,
		chromedp.Flag("no-proxy-server", true),
		// Tabs are watched; this is for whatever the browser would like to do on its own.
		chromedp.Flag("host-resolver-rules", "MAP "+other+" "+home+", MAP * ~NOTFOUND, EXCLUDE "+home),
		// One more process for a page that never comes. The first two are chromedp's own.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess"),
		// Two sites are two processes, as in a browser with windows.
		chromedp.Flag("site-per-process", true),
		// Servers in tests sign their own certificates.
		chromedp.Flag("ignore-certificate-errors", true),
	})
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	// Not a test's context: that one ends before the browser could be closed.
	alloc, kill := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
	end := func() {
		cancel()
		kill()
		// A child of the browser may outlive it by a moment, and still write.
		for late := time.Now().Add(bound); os.RemoveAll(profile) != nil &&
			time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		}
	}
	if err := open(ctx, kill); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}

// open takes the first step of a tab. The browser and the tab live as long as the context of that step, so it is not
// given a deadline: stop ends it when it is late.
func open(ctx context.Context, stop func()) error {
	late := time.AfterFunc(bound, stop)
	err := chromedp.Do(ctx)
	if !late.Stop() {
		return errors.Join(errors.New("too late"), err)
	}
	if err != nil {
		stop()
	}
	return err
}
