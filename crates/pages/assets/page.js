// placeholder until the next commit
(() => {
window.anteroom = true;
})();
