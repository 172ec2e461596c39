package refusal

import "testing"

func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{"application/grpc": true, "application/grpc+proto": true,
		"application/grpc-web+proto": true, "application/grpc;x": true,
		"application/grpcx": false, "application/json": false, "": false} {
		if got := IsGRPC(kind); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
	if got := grpcMessage("100 % of\n“it”"); got != "100 %25 of%0A%E2%80%9Cit%E2%80%9D" {
		t.Error(got)
	}
}
