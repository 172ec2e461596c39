package demo

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/throttle/stamp/payer"
)

// swarm is a flood that does not pay. Each of its workers keeps a connection, and they come from as many addresses, of
// 10.0.0.0/16.
func swarm(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampFlooders, DisableCompression: true}
	client := &http.Client{Transport: transport, Timeout: stampGiveUp}
	var number atomic.Uint32
	return func(ctx context.Context) Result {
		n := number.Add(1) % stampFlooders
		source := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
		return asked(get(ctx, client, s.GateURL(0), from(source, "*/*")))
	}, transport.CloseIdleConnections
}

// bots are a flood that pays. Each bot has an address and the processor of a phone. It has some requests under way at a
// time, and makes one stamp at a time for all of them.
func bots(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampBots * stampTogether, DisableCompression: true}
	type bot struct {
		client *http.Client
		source netip.Addr
	}
	paid := &s.Props.(*spending).bots
	paid.Store(0)
	idle := make(chan bot, stampBots*stampTogether)
	for i := range stampBots {
		b := bot{source: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}),
			client: &http.Client{Timeout: patience, Transport: &payer.Transport{
				Base: transport, Workers: 1, Paid: func(_ string, p payer.Payment) { time.Sleep(asPhone(p, paid)) },
			}}}
		for range stampTogether {
			idle <- b
		}
	}
	return func(ctx context.Context) Result {
		b := <-idle
		defer func() { idle <- b }()
		return asked(get(ctx, b.client, s.GateURL(0), from(b.source, "*/*")))
	}, transport.CloseIdleConnections
}

// asked says what an answer means to a client that does not pay: a demand for a stamp is a refusal.
func asked(status int, h http.Header, err error) Result {
	if h.Get(payer.ChallengeHeader) != "" && err == nil {
		return Refused
	}
	return answered(status, err)
}
