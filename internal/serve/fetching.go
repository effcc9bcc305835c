package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/bperf/bperf/internal/serve/settings"
	"github.com/bperf/bperf/internal/symbol/debuginfod"
)

// newDebuginfod returns a client of the servers of the settings, which does not wait for them. It is nil without servers.
func newDebuginfod(ctx context.Context, s *settings.Settings, log *slog.Logger) *debuginfod.Client {
	if len(s.Debuginfod) == 0 {
		return nil
	}
	getenv := func(name string) string {
		value := os.Getenv(name)
		switch cache := os.Getenv("CACHE_DIRECTORY"); { // systemd.exec(5)
		case name == "DEBUGINFOD_URLS":
			return strings.Join(s.Debuginfod, " ")
		case name == "DEBUGINFOD_CACHE_PATH" && value == "" && cache != "":
			return filepath.Join(cache, "debuginfod_client")
		}
		return value
	}
	return debuginfod.New(ctx, debuginfod.Options{Getenv: getenv, Notes: warnings{log}}).WithoutWaiting()
}

// warnings logs each line that is written to it.
type warnings struct{ log *slog.Logger }

func (w warnings) Write(lines []byte) (int, error) {
	for line := range strings.Lines(string(lines)) {
		w.log.Warn("debuginfod", "note", strings.TrimSpace(line))
	}
	return len(lines), nil
}
