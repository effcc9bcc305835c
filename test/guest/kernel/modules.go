package kernel

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bperf/bperf/test/apt"
	"github.com/bperf/bperf/test/whole"
)

// networkModules are the modules of the driver of virtio network devices, in the order in which the kernel can load them.
var networkModules = []string{"failover.ko.xz", "net_failover.ko.xz", "virtio_net.ko.xz"}

// Network returns the files of the kernel's modules for a virtio network device, in the order to load them. It fetches them if they are not in
// the cache. They are compressed, which the kernel undoes itself (CONFIG_MODULE_DECOMPRESS, not in 6.1).
func (k *Kernel) Network() ([]string, error) {
	dir := filepath.Join(k.cache+"-network", k.Release)
	if _, err := os.Stat(dir); err != nil {
		if err := k.fetchNetwork(dir); err != nil {
			return nil, fmt.Errorf("get the network modules of %s: %w", k.Release, err)
		}
	}
	var files []string
	for _, name := range networkModules {
		files = append(files, filepath.Join(dir, name))
	}
	return files, nil
}

func (k *Kernel) fetchNetwork(dir string) error {
	if err := apt.Need(map[string]string{"dpkg-deb": "dpkg"}); err != nil {
		return err
	}
	return whole.Make(dir, func(tmp string) (string, error) {
		archive, err := apt.OpenArchive(k.suite, k.arch)
		if err != nil {
			return "", err
		}
		defer archive.Close()
		unpacked, modules := filepath.Join(tmp, "unpacked"), filepath.Join(tmp, "modules")
		if err := archive.Unpack(unpacked, packageOf(archive, "linux-image-"+k.Release, "linux-modules-")); err != nil {
			return "", err
		}
		if err := os.Mkdir(modules, 0o755); err != nil {
			return "", err
		}
		return modules, moveFiles(unpacked, modules, networkModules)
	})
}

// moveFiles moves the files with names, wherever they are below a directory, into another directory.
func moveFiles(from, to string, names []string) error {
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !missing[d.Name()] {
			return err
		}
		delete(missing, d.Name())
		return os.Rename(path, filepath.Join(to, d.Name()))
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%d of the files %v are missing", len(missing), names)
	}
	return err
}
