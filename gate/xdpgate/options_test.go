package xdpgate

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
)

func valid() Options {
	return Options{Interface: "eth0", Bloom: bloom.Options{Rate: weir.Rate{Count: 100, Per: time.Second}}}
}

func TestValidate(t *testing.T) {
	needs.Unwatched(t)
	many := func(n int) []netip.Prefix {
		all := make([]netip.Prefix, n)
		for i := range all {
			all[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		}
		return all
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // path and part of the message; empty when it is fine
	}{
		"valid":        {func(*Options) {}, ""},
		"no interface": {func(o *Options) { o.Interface = "" }, "interface: the limiter has no"},
		"VLAN":         {func(o *Options) { o.Interface = "eth0.100" }, ""},
		"path":         {func(o *Options) { o.Interface = "../x" }, "interface: \"../x\" is not"},
		"dots":         {func(o *Options) { o.Interface = ".." }, "interface: \"..\" is not"},
		"long":         {func(o *Options) { o.Interface = "abcdefghijklmnop" }, "interface:"},
		"mode": {func(o *Options) { o.Mode = "packet" },
			`mode: unknown mode "packet" (did you mean "packets"?)`},
		"attach":      {func(o *Options) { o.Attach = "offload" }, "attach: unknown attach"},
		"pin":         {func(o *Options) { o.Pin = "weir" }, "pin: \"weir\" is not an absolute"},
		"ports":       {func(o *Options) { o.Ports = []int{0, 443, 65536} }, "ports[0]: 0 is not a port"},
		"second port": {func(o *Options) { o.Ports = []int{443, 65536} }, "ports[1]: 65536"},
		"all ports":   {func(o *Options) { o.Ports = make([]int, MaxPorts) }, "ports[0]"},
		"too many ports": {func(o *Options) { o.Ports = make([]int, MaxPorts+1) },
			"ports: 65536 ports are too many"},
		"no network": {func(o *Options) { o.Ban = []netip.Prefix{{}} }, "ban[0]: not a network"},
		"prefixes":   {func(o *Options) { o.Prefixes = many(MaxPrefixes) }, ""},
		"too many prefixes": {func(o *Options) { o.Prefixes = many(MaxPrefixes + 1) },
			"prefixes: 10001 networks are too many"},
		"allow":             {func(o *Options) { o.Allow = many(MaxEntries) }, ""},
		"too many to allow": {func(o *Options) { o.Allow = many(MaxEntries + 1) }, "allow: 100001 networks"},
		"too many bans":     {func(o *Options) { o.Ban = many(MaxEntries + 1) }, "ban: 100001 networks"},
		"growing": {func(o *Options) { o.Bloom.MaxMemory = 1 << 30 },
			"bloom.max_memory: tables in the kernel do not grow"},
		"count agrees": {func(o *Options) { o.Bloom.Count = bloom.Events }, ""},
		"count disagrees": {func(o *Options) { o.Bloom.Count = bloom.Bytes },
			"bloom.count: bytes are counted, but the mode is syn"},
		"unknown count":   {func(o *Options) { o.Bloom.Count = "x" }, "bloom.count: unknown count"},
		"no rate":         {func(o *Options) { o.Bloom.Rate = weir.Rate{} }, "bloom.rate"},
		"burst of a tick": {func(o *Options) { o.Bloom.Rate.Count, o.Bloom.Burst = 1_000_000, 10_000 }, ""},
		"burst below a tick": {func(o *Options) { o.Bloom.Rate.Count, o.Bloom.Burst = 1_000_000, 9_999 },
			"bloom.burst: a burst of 9999 is used up in less than a tick"},
		"bytes": {func(o *Options) { o.Mode, o.Bloom.Rate.Count = Bytes, 1_000_000 }, ""},
		"bytes, no packet": {func(o *Options) { o.Mode, o.Bloom.Rate.Count = Bytes, 60_000 },
			"bloom.burst: a burst of 60000 holds no packet"},
		"memory": {func(o *Options) { o.Bloom.Attackers = 80_000_000 }, ""},
		"too much memory": {func(o *Options) { o.Bloom.Attackers = 120_000_000 },
			"bloom.attackers: the tables would take"},
		"exempt": {func(o *Options) { o.Bloom.Exempt = many(bloom.MaxRanges + 1) }, "bloom.groups: 10001 ranges"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			c.change(&o)
			err := o.Validate()
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("says %v, want %s", err, c.want)
			}
			for _, fe := range weir.FieldErrors(err) {
				if fe.Path == "" || fe.Hint == "" {
					t.Errorf("%q has no path or no hint", fe)
				}
			}
		})
	}
}

// TestHint: a limit that follows the hint is fine.
func TestHint(t *testing.T) {
	needs.Unwatched(t)
	o := valid()
	o.Mode, o.Bloom.Rate.Count, o.Bloom.Burst = Bytes, 100_000, 330_245
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	needs.Unwatched(t)
	o := valid().WithDefaults()
	if o.Mode != SYN || o.Attach != Auto || o.Pin != "/sys/fs/bpf/weir" || o.Bloom.K != 5 ||
		o.Bloom.Count != bloom.Events {
		t.Errorf("%+v", o)
	}
	o = Options{Mode: Bytes}.WithDefaults()
	if o.Bloom.Count != bloom.Bytes {
		t.Errorf("%+v", o)
	}
}
