// SPDX-License-Identifier: Apache-2.0
//
// Deploys an application (shop.Web) again and again, as a container of applications does: each time with all its libraries in a class loader of its
// own, which is dropped with all its classes, and with the code that was compiled for them.
//
//	Deployments PORT SECONDS URL...
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

public class Deployments {
    static AutoCloseable deploy(URL[] urls, int port) throws Exception {
        URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
        Thread.currentThread().setContextClassLoader(loader);
        AutoCloseable web = (AutoCloseable) loader.loadClass("shop.Web").getMethod("start", int.class).invoke(null, port);
        return () -> {
            web.close();
            Thread.currentThread().setContextClassLoader(null);
            loader.close();
        };
    }

    public static void main(String[] a) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (int i = 2; i < a.length; i++)
            urls.add(new File(a[i]).toURI().toURL());
        for (int n = 1;; n++) {
            try (AutoCloseable deployment = deploy(urls.toArray(new URL[0]), Integer.parseInt(a[0]))) {
                System.out.println("deployed " + n);
                Thread.sleep(1000 * Integer.parseInt(a[1]));
            }
            System.gc();
        }
    }
}
