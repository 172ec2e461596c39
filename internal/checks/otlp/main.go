// Command otlp receives traces as the Collector of OpenTelemetry does, with its own receiver: otlp HTTP-ADDRESS
// GRPC-ADDRESS. It says when it is ready, and then prints a line of JSON for each span.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(http, grpc string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	type keys = map[string]any
	written := keys{"protocols": keys{"http": keys{"endpoint": http}, "grpc": keys{"endpoint": grpc}}}
	if err := confmap.NewFromStringMap(written).Unmarshal(config); err != nil {
		return err
	}
	next, err := consumer.NewTraces(print)
	if err != nil {
		return err
	}
	settings := receivertest.NewNopSettings(component.MustNewType("otlp"))
	r, err := factory.CreateTraces(ctx, settings, config, next)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return r.Shutdown(context.Background())
}

var out sync.Mutex

func print(_ context.Context, all ptrace.Traces) error {
	out.Lock()
	defer out.Unlock()
	to := json.NewEncoder(os.Stdout)
	for _, r := range all.ResourceSpans().All() {
		service, _ := r.Resource().Attributes().Get("service.name")
		for _, scope := range r.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				err := to.Encode(map[string]any{"service": service.AsString(), "name": s.Name(), "kind": s.Kind().String(),
					"trace": s.TraceID().String(), "span": s.SpanID().String(), "parent": s.ParentSpanID().String(),
					"attributes": s.Attributes().AsRaw()})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
