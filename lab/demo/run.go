package demo

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"weir/lab/machine"
)

// DefaultFor is how long the demo takes where Out is no terminal and nothing else was asked for.
const DefaultFor = 29 * time.Second

// Where the end is open: how long the first half of the last scene takes, and each scene before it.
const (
	preview   = 5 * time.Second
	interlude = 10 * time.Second
)

// holdMost bounds how long the page stays open after the last scene, where that is asked for.
const holdMost = time.Hour

// Options say how the demo is run and shown. The zero value plays for DefaultFor and shows nothing.
type Options struct {
	// For is how long all scenes take together. 0 means until the context ends where Out is a terminal, else
	// DefaultFor.
	For time.Duration
	// Hold keeps the page open when the scenes are over, until the context ends or an hour has passed.
	Hold bool
	// JSON writes the report as JSON, and nothing else, to Out.
	JSON bool
	// Out is where people read. Default: nowhere.
	Out io.Writer
	// Err is where weir's warnings go. Default: nowhere.
	Err io.Writer
	// Terminal says that Out is one that understands escape sequences: there is a live table. Elsewhere there are a few
	// lines.
	Terminal bool
	// Colour says that Out has colours.
	Colour bool
	// Width tells how wide the terminal is now. Default: 80 columns.
	Width func() int
	// Version is what the weirs of the scenes call themselves.
	Version string
}

func (o Options) withDefaults() Options {
	o.Out, o.Err = cmp.Or(o.Out, io.Discard), cmp.Or(o.Err, io.Discard)
	if o.Width == nil {
		o.Width = func() int { return 80 }
	}
	if o.For <= 0 && (o.JSON || !o.Terminal) {
		o.For = DefaultFor
	}
	return o
}

// Run plays every scene and returns the report. It ends early but cleanly when ctx ends, which is no error. A failed
// check is one, ErrNotSo.
func Run(ctx context.Context, o Options) (Report, error) { return run(ctx, scenes(), o) }

func run(ctx context.Context, list []Scene, o Options) (Report, error) {
	o = o.withDefaults()
	s, warnings := newShow(o)
	log := slog.New(slog.NewTextHandler(warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	report := Report{Scenes: []SceneReport{}}
	var playable []*Scene
	for i := range list {
		scene := &list[i]
		if scene.Possible != nil {
			if err := scene.Possible(); err != nil {
				s.skip(scene, err)
				report.Scenes = append(report.Scenes, skipped(scene, err))
				continue
			}
		}
		playable = append(playable, scene)
	}
	if len(playable) == 0 {
		return report, report.write(o)
	}
	h, err := openHouse(playable, log, o.Version)
	if err != nil {
		return report, err
	}
	defer h.close()
	s.page(h.address())
	for i, p := range h.pairs {
		if i > 0 && ctx.Err() != nil {
			break
		}
		r, err := perform(ctx, h, p, s, o.partsOf(playable, i))
		if err != nil {
			return report, err
		}
		report.Scenes = append(report.Scenes, r)
	}
	if err := report.write(o); err != nil || !o.Hold {
		return report, err
	}
	s.hold(holdMost)
	machine.Sleep(ctx, holdMost)
	return report, nil
}

func perform(ctx context.Context, h *house, p *pair, s show, length parts) (SceneReport, error) {
	h.claim(p)
	defer h.yield(p)
	defer s.restore()
	return (&play{pair: p, house: h, show: s, parts: length}).perform(ctx)
}

// partsOf divides the time by weight. An open end is the last scene's.
func (o Options) partsOf(list []*Scene, i int) parts {
	scene, all := list[i], 0
	for _, other := range list {
		all += max(other.Weight, 1)
	}
	length := time.Duration(float64(o.For) * float64(max(scene.Weight, 1)) / float64(all))
	if o.For <= 0 {
		if i == len(list)-1 {
			return parts{without: preview}
		}
		length = interlude
	}
	length = max(length, 4*time.Nanosecond)
	without := max(time.Duration(float64(length)*cmp.Or(scene.Preview, 0.25)), 1)
	return parts{without: without, with: length - without}
}
