package flood

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"weir/app"
	"weir/config"
	"weir/console"
)

// ours is weir as one would run it: stamps with their defaults, and the capacity of the service.
func ours() contender {
	return contender{name: "weir", title: "weir", find: func(o Options) (string, error) { return o.Version, nil },
		start: startWeir}
}

// ourConfig is what an operator would write who knows the capacity of the service and nothing else.
const ourConfig = `
data: %q
http:
- listen: %s
  upstream: http://%s
  capacity: {concurrent: %d}
  trusted_proxies: [127.0.0.0/8]
  throttles: [stamps]
throttles:
  stamps: {stamp: {}}
console: {listen: "off"}
log: {level: error, access: "off"}
`

// keyed turns ourConfig into that of the README: each key has its limit, and clients without one are counted by address.
var keyed = strings.NewReplacer("  throttles: [stamps]\n", `  account: ["header:`+keyHeader+`"]
  throttles: [plans, stamps]
`, "throttles:\n  stamps", `throttles:
  plans:
    quota:
      policies:
      - {name: per-second, limit: 5, period: 1s}
  stamps`)

func startWeir(ctx context.Context, at site) (*standing, error) {
	text := ourConfig
	if at.keyed {
		text = keyed.Replace(text)
	}
	text = fmt.Sprintf(text, filepath.Join(at.folder, "weir"), loopback, at.service, at.Concurrent)
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	a, err := app.New(cfg, app.Options{Version: at.Version})
	if err != nil {
		return nil, err
	}
	if err := a.Start(ctx); err != nil {
		return nil, err
	}
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		a.Stop(ctx)
	}
	control := console.NewClient(a.ControlPath())
	gauge := func(ctx context.Context) (g Gauge, err error) {
		status, err := control.Status(ctx)
		if err != nil {
			return g, err
		}
		for _, gate := range status.Gates {
			if c := gate.Capacity; c != nil {
				g.Load, g.DelayMS, g.InLine = c.Load, c.Delay, c.InLine
			}
		}
		for _, t := range status.Throttles {
			if t.Stamp != nil {
				g.Work = t.Stamp.Most()
			}
		}
		return g, nil
	}
	return &standing{address: a.HTTPAddr(0).String(), stop: stop, gauge: gauge}, nil
}
