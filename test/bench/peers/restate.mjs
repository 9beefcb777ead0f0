/** The counting agent as a Restate virtual object. Its ingress takes the request, so nothing checks signatures. */

// Its SDK calls this function, which Node 20 lacks.
Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};
const restate = await import("@restatedev/restate-sdk");

const counting = restate.object({
  name: "counting",
  handlers: {
    deliver: async (ctx, event) => {
      const count = (await ctx.get("count")) ?? 0;
      ctx.set(`delivery-${event.number}`, event.ref);
      ctx.set("count", count + 1);
      return "OK";
    },
  },
});

const port = Number(process.argv[2]);
await restate.endpoint().bind(counting).listen(port);
console.log("listening");
