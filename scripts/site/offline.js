// Search in a site that is opened from a folder: browsers start no worker from file://, so the
// worker's script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.early = [];
      url = new URL(url, location);
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...urls) =>
        urls.reduce((done, at) => done.then(() => new Promise((loaded) => {
          const script = inside.document.createElement("script");
          script.src = new URL(at, url);
          script.onload = script.onerror = loaded;
          inside.document.body.appendChild(script);
        })), Promise.resolve());
      this.inside = inside;
      inside.importScripts(url).then(() => {
        this.ready = true;
        this.early.splice(0).forEach((data) => this.postMessage(data));
      });
    }
    postMessage(data) {
      if (!this.ready) return this.early.push(data);
      const event = new MessageEvent("message", { data });
      this.inside.dispatchEvent(event);
      if (this.inside.onmessage) this.inside.onmessage(event);
    }
    terminate() {}
  };
}
