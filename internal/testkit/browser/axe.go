package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/testkit/needs"
)

// axe-core is the usual judge of what a page is like for people who cannot see it well, or not at all. It is fetched
// once and kept among the caches of whoever runs the tests.
const (
	axeVersion = "4.14.0"
	axePackage = "axe-core@" + axeVersion
	axeFile    = "axe.min.js"
	axeSum     = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878" // SHA-256 of axe.min.js
	fetchBound = 2 * time.Minute
)

// Contrast is the rule of axe-core that costs most. A page that Faults has looked at does not need it: that asks for as
// much contrast of small text, and for more of large text.
const Contrast = "color-contrast"

// Axe returns what axe-core finds wrong with the page as it is now, by all rules except those that are named. Where
// axe-core is neither cached nor to be had, the test is skipped, or fails where everything must be tested.
func (p *Page) Axe(except ...string) []string {
	p.t.Helper()
	script := axe(p.t)
	run(p, "load axe-core", chromedp.Evaluate[bool]("(() => { "+script+"\n; return true })()"))
	off := map[string]map[string]bool{}
	for _, rule := range except {
		off[rule] = map[string]bool{"enabled": false}
	}
	rules, err := json.Marshal(off)
	if err != nil {
		p.t.Fatal(err)
	}
	return Await[[]string](p, `axe.run(document, {preload: false, resultTypes: ['violations'], rules: `+string(rules)+
		`}).then(found => found.violations.flatMap(v =>
	v.nodes.map(n => v.id + ': ' + n.failureSummary.replace(/\s+/g, ' ') + ' ' + n.html)))`)
}

func axe(t testing.TB) string {
	t.Helper()
	script, err := axeOnce()
	if err != nil {
		needs.Skip(t, fmt.Sprintf("no axe-core: %v; npm fetches %s once", err, axePackage))
	}
	return script
}

var axeOnce = sync.OnceValues(func() (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	return axeFrom(filepath.Join(folder, "weir-test", "axe-"+axeVersion+".js"), axePackage)
})

// axeFrom reads the script from its place in the cache, and fetches it where it is not there.
func axeFrom(cached, source string) (string, error) {
	if script, err := os.ReadFile(cached); err == nil && genuine(script) {
		return string(script), nil
	}
	script, err := fetchAxe(source)
	if err != nil {
		return "", err
	}
	if !genuine(script) {
		return "", fmt.Errorf("%s has another %s than it should", source, axeFile)
	}
	// Without a cache it is fetched again the next time. Tests of other packages may do the same right now.
	if err := os.MkdirAll(filepath.Dir(cached), 0o777); err == nil {
		part := fmt.Sprintf("%s.%d", cached, os.Getpid())
		if os.WriteFile(part, script, 0o666) != nil || os.Rename(part, cached) != nil {
			_ = os.Remove(part)
		}
	}
	return string(script), nil
}

func genuine(script []byte) bool {
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:]) == axeSum
}

// fetchAxe has npm fetch the package.
func fetchAxe(name string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "weir-axe")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	ctx, cancel := context.WithTimeout(context.Background(), fetchBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", name, "--silent", "--ignore-scripts", "--prefix", folder)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm install %s: %w: %s", name, err, out)
	}
	return os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", axeFile))
}
