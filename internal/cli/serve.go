package cli

import (
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bperf/bperf/internal/serve"
	"github.com/bperf/bperf/internal/serve/settings"
)

// serveOptions are the flags of serve. Each replaces a key of the configuration file.
type serveOptions struct {
	config      string
	printConfig bool
	listen      []string
	webConfig   string
	insecure    bool
	events      []string
	cpu         string
	memory      string
	logLevel    string
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Count on this node all the time, for Prometheus and others",
		Long: `serve counts events of each CPU, each container and each BPF program of this machine until it is stopped,
and answers HTTP requests for the counts: /metrics is for Prometheus.

It listens on a loopback address unless told otherwise. Other addresses need TLS and client authentication (--web-config).
SIGHUP makes it read its configuration again. SIGTERM and SIGINT end it with exit status 0.`,
		Example: `  bperf serve
  bperf serve -e cycles,instructions --listen unix:/run/bperf.sock
  bperf serve --print-config > /etc/bperf/bperf.yml
  bperf serve --config /etc/bperf/bperf.yml`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.printConfig {
				_, err := io.WriteString(cmd.OutOrStdout(), settings.Text)
				return err
			}
			return runServe(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "read the configuration from this `FILE`")
	f.BoolVar(&o.printConfig, "print-config", false, "print a configuration file with all keys, their defaults and what they mean")
	f.StringArrayVar(&o.listen, "listen", nil,
		"listen on this `ADDRESS`, HOST:PORT or unix:PATH, instead of those in the configuration; may be repeated")
	f.StringVar(&o.webConfig, "web-config", "", "read TLS and client authentication from this `FILE` (web.yml of Prometheus' exporters)")
	f.BoolVar(&o.insecure, "insecure", false, "listen on addresses that are not loopback without TLS and client authentication")
	f.StringArrayVarP(&o.events, "event", "e", nil, "count these `EVENTS` instead of those in the configuration; may be repeated")
	f.StringVar(&o.cpu, "cpu-budget", "", "bperf may take this `SHARE` of all CPUs, such as 1%; 0 for no limit")
	f.StringVar(&o.memory, "memory-budget", "",
		"bperf may take this much resident `MEMORY` without pages of files, such as 64M; 0 for no limit")
	f.StringVar(&o.logLevel, "log-level", "", "log from this `LEVEL` on: debug, info, warn or error")
	completeFlag(cmd, "log-level", []string{"debug", "info", "warn", "error"})
	return cmd
}

func runServe(cmd *cobra.Command, o *serveOptions) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	// One thread is enough for a daemon that takes less than a hundredth of a CPU. With more, the Go runtime takes as much CPU time again
	// to wake threads that then find nothing to do, and collects garbage on all CPUs at once.
	runtime.GOMAXPROCS(1)
	changed := cmd.Flags().Changed
	daemon, err := serve.New(serve.Config{
		Path:    o.config,
		Version: currentVersion(),
		Log:     cmd.ErrOrStderr(),

		DropCapabilities: true,
		Change: func(s *settings.Settings) {
			if changed("listen") {
				s.Listen = o.listen
			}
			if changed("web-config") {
				s.WebConfig = o.webConfig
			}
			if changed("insecure") {
				s.Insecure = o.insecure
			}
			if changed("event") {
				s.Events = o.events
			}
			if changed("cpu-budget") {
				s.Budget.CPU = o.cpu
			}
			if changed("memory-budget") {
				s.Budget.Memory = o.memory
			}
			if changed("log-level") {
				s.Log.LevelName = o.logLevel
			}
		},
	})
	if err != nil {
		return err
	}
	return daemon.Run(ctx, reload)
}
